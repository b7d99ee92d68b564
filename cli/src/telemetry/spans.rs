//! Spans that have ended, on their way out: a layer that takes down the fields of those with a trace of ours.
//!
//! It never waits: where the queue is full, spans are given up and counted.

use std::{fmt, sync::Arc, time::SystemTime};

use meanfield_common::trace::Exports;
use serde_json::{Map, Value};
use tokio::sync::mpsc::Sender;
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

/// The field that every span of ours has.
pub const TRACE: &str = "trace_id";
/// Its other ids, and whether it is to be exported.
const SPAN: &str = "span_id";
const PARENT: &str = "parent_id";
const SAMPLED: &str = "sampled";

/// A span that has ended.
#[derive(Debug, Clone)]
pub struct Ended {
    pub name: &'static str,
    pub begin: SystemTime,
    pub end: SystemTime,
    pub fields: Fields,
}

/// What is known of a span.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    pub trace: String,
    pub span: String,
    pub parent: Option<String>,
    pub sampled: bool,
    pub others: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            (TRACE, Value::String(id)) => self.trace = id,
            (SPAN, Value::String(id)) => self.span = id,
            (PARENT, Value::String(id)) => self.parent = Some(id),
            (SAMPLED, Value::Bool(sampled)) => self.sampled = sampled,
            (name, value) => drop(self.others.insert(name.to_owned(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
}

struct Open {
    begin: SystemTime,
    fields: Fields,
}

/// The layer.
pub struct Spans {
    queue: Sender<Ended>,
    exports: Arc<Exports>,
}

impl Spans {
    pub fn new(queue: Sender<Ended>, exports: Arc<Exports>) -> Self {
        Self { queue, exports }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        // Whoever is called by somebody who does not export does not export either.
        if let Some(span) = context.span(id).filter(|_| fields.sampled) {
            span.extensions_mut().insert(Open { begin: SystemTime::now(), fields });
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            values.record(&mut open.fields);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(Open { begin, fields }) = span.extensions_mut().remove::<Open>() else { return };
        let ended = Ended { name: span.name(), begin, end: SystemTime::now(), fields };
        if self.queue.try_send(ended).is_err() {
            self.exports.dropped(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::{Receiver, channel};
    use tracing::{info_span, subscriber::with_default};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    fn watched(room: usize, work: impl FnOnce()) -> (Receiver<Ended>, [u64; 2]) {
        let ((queue, ended), exports) = (channel(room), Arc::new(Exports::default()));
        with_default(tracing_subscriber::registry().with(Spans::new(queue, Arc::clone(&exports))), work);
        (ended, exports.counts())
    }

    #[test]
    fn what_ends_is_handed_on_with_what_was_recorded_later() {
        let (mut ended, counts) = watched(4, || {
            let span =
                info_span!("request", trace_id = "a", span_id = "b", parent_id = "c", sampled = true, status = 0);
            span.in_scope(|| span.record("status", 200));
            info_span!("request", trace_id = "a", span_id = "d", sampled = false);
        });
        let Ended { name, begin, end, fields } = ended.try_recv().unwrap();
        assert_eq!((name, fields.trace.as_str(), fields.span.as_str()), ("request", "a", "b"));
        assert_eq!((fields.parent.as_deref(), fields.others.get("status")), (Some("c"), Some(&200.into())));
        assert!(begin <= end && counts == [0, 0]);
        assert!(ended.try_recv().is_err(), "what is not sampled stays");
    }

    #[test]
    fn what_finds_no_room_is_given_up_and_counted() {
        let (_ended, counts) = watched(2, || {
            for _ in 0..5 {
                info_span!("step", trace_id = "a", span_id = "b", sampled = true);
            }
        });
        assert_eq!(counts, [0, 3]);
    }
}
