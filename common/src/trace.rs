//! Ids that follow a step from an agent to its coordinator: the header `traceparent` of the W3C's Trace Context, so that
//! whatever else reads traces can follow too.
//!
//! Made from random bytes that the caller brings. A header that is not as it should be is no reason to refuse anything:
//! it is passed over.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

/// The header's name.
pub const HEADER: &str = "traceparent";

/// The length of the header in the one version that exists.
const LENGTH: usize = 55;
/// The flag that says that the caller exports what it does.
const SAMPLED: u8 = 1;

/// What belongs to one step, or to one request of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceId(u128);

/// One piece of work in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanId(u64);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A piece of work, as the next one is told about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// What it belongs to.
    pub trace: TraceId,
    /// Its own id.
    pub span: SpanId,
    /// Whether it is exported, and what it causes should be.
    pub sampled: bool,
}

impl Context {
    /// The first piece of something new, from random bytes. Zero means "none" in the header, so it becomes one.
    #[must_use]
    pub fn new(random: [u8; 24], sampled: bool) -> Self {
        let [mut trace, mut span] = [[0; 16], [0; 16]];
        trace.copy_from_slice(&random[..16]);
        span[8..].copy_from_slice(&random[16..]);
        let (trace, span) = (u128::from_be_bytes(trace).max(1), (u128::from_be_bytes(span) as u64).max(1));
        Self { trace: TraceId(trace), span: SpanId(span), sampled }
    }

    /// A piece of work that this one causes.
    #[must_use]
    pub fn child(self, random: [u8; 8]) -> Self {
        Self { span: SpanId(u64::from_be_bytes(random).max(1)), ..self }
    }

    /// Reads the header; `None` if it is not as it should be.
    #[must_use]
    pub fn parse(header: &[u8]) -> Option<Self> {
        // Later versions may append to this form, behind another dash.
        let (known, rest) = header.split_at_checked(LENGTH)?;
        let [b'-', b'-', b'-'] = [known[2], known[35], known[52]] else { return None };
        let version = number(&known[..2])?;
        let fits = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest[0] == b'-',
        };
        let (trace, span) = (number(&known[3..35])?, number(&known[36..52])? as u64);
        let sampled = number(&known[53..])? as u8 & SAMPLED != 0;
        (fits && trace != 0 && span != 0).then_some(Self { trace: TraceId(trace), span: SpanId(span), sampled })
    }
}

/// As the header has it.
impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

/// The number that these digits write; small letters only.
fn number(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

/// How many spans were exported, and how many were not for want of room or of somebody who takes them. It is here since
/// both daemons show it.
#[derive(Debug, Default)]
pub struct Exports {
    sent: AtomicU64,
    dropped: AtomicU64,
}

impl Exports {
    /// Counts spans that were taken.
    pub fn sent(&self, spans: usize) {
        self.sent.fetch_add(spans as u64, Ordering::Relaxed);
    }

    /// Counts spans that were given up.
    pub fn dropped(&self, spans: usize) {
        self.dropped.fetch_add(spans as u64, Ordering::Relaxed);
    }

    /// How many were taken, and how many given up.
    #[must_use]
    pub fn counts(&self) -> [u64; 2] {
        [&self.sent, &self.dropped].map(|count| count.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // The example of the specification.
    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn the_specification_s_example_reads_back_as_written() {
        let context = Context::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(context.trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!((context.span.to_string().as_str(), context.sampled), ("b7ad6b7169203331", true));
        assert_eq!(context.to_string(), GOOD);
        let quiet = GOOD.replace("-01", "-00");
        assert!(!Context::parse(quiet.as_bytes()).unwrap().sampled);
        // Other flags are passed over, and so is what a later version appends.
        assert!(Context::parse(GOOD.replace("-01", "-ff").as_bytes()).unwrap().sampled);
        assert!(Context::parse(format!("cc{}-more", &GOOD[2..]).as_bytes()).is_some());
        assert!(Context::parse(format!("cc{}", &GOOD[2..]).as_bytes()).is_some());
    }

    #[test]
    fn what_is_not_as_it_should_be_is_passed_over() {
        let zeros = |from: usize, to: usize| format!("{}{}{}", &GOOD[..from], "0".repeat(to - from), &GOOD[to..]);
        let bad = [
            String::new(),
            GOOD[1..].to_owned(),
            format!("{GOOD}-more"),
            format!("ff{}", &GOOD[2..]),
            format!("cc{}.more", &GOOD[2..]),
            GOOD.to_uppercase(),
            GOOD.replace('-', "_"),
            GOOD.replace("b7", "g7"),
            zeros(3, 35),
            zeros(36, 52),
            "é".repeat(28),
        ];
        for bad in bad {
            assert_eq!(Context::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_made_can_be_read_and_nothing_panics(
            random: [u8; 24], other: [u8; 8], sampled: bool, bytes in prop::collection::vec(any::<u8>(), 0..80)
        ) {
            let context = Context::new(random, sampled);
            let child = context.child(other);
            prop_assert_eq!(child.trace, context.trace);
            for context in [context, child] {
                prop_assert_eq!(Context::parse(context.to_string().as_bytes()), Some(context));
            }
            if let Some(context) = Context::parse(&bytes) {
                prop_assert_eq!(Context::parse(context.to_string().as_bytes()), Some(context));
            }
        }
    }

    #[test]
    fn no_id_is_zero() {
        let context = Context::new([0; 24], true).child([0; 8]);
        assert_eq!(Context::parse(context.to_string().as_bytes()), Some(context));
    }
}
