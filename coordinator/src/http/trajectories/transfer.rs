//! All steps as a file, and back: `GET /v1/trajectories/export`, `POST /v1/trajectories/import`.
//!
//! An export is sent while it is read, some kilobytes at a time, and waits for a slow reader. One that fails half-way is
//! cut off, so that nobody takes a part for the whole. An import is kept in a file until all of it is here.

use std::{
    fs::File,
    io::{self, Seek, Write},
};

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt, stream};
use meanfield_common::trajectory::Appended;
use serde_json::{Value, json};
use tokio::{runtime::Handle, sync::mpsc, task};

use super::{
    super::{
        agents::encode,
        auth::{Operator, Reader},
        body,
        openapi::{Asking, Importing},
        problem::{Kind, Refusal, respond},
        query::NoQuery,
    },
    question::{EXPORT, Question},
};
use crate::{
    access::Caller,
    coordinator::Coordinator,
    error::Error,
    trajectories::{
        export::{self, Format},
        import::Batches,
    },
};

/// Pieces that wait for the network, or for the disk.
const WAITING: usize = 4;
const PIECE: usize = 64 << 10;
/// The largest import in bytes.
const LARGEST: u64 = 4 << 30;

/// Export steps as CSV or Parquet, in the order of time.
#[utoipa::path(
    get,
    path = "/v1/trajectories/export",
    operation_id = "export_steps",
    tag = "trajectories",
    params(
        ("format" = Option<String>, Query, description = "`csv` or `parquet`"),
        ("agent" = Option<uuid::Uuid>, Query, description = "Only of this agent"),
        ("pool" = Option<String>, Query, description = "Only of this pool"),
        ("category" = Option<String>, Query, description = "Only of this category: cpu, memory or io"),
        ("since" = Option<u64>, Query, description = "Only of episodes that began then or later, in milliseconds since 1970"),
        ("until" = Option<u64>, Query, description = "Only of episodes that began before then"),
    ),
    responses(
        (status = 200, description = "The file", content((String = "text/csv"), (String = "application/vnd.apache.parquet"))),
        Asking
    ),
    security(("token" = ["reader"]))
)]
pub async fn export(State(coordinator): State<Coordinator>, _: Reader, question: Question<EXPORT>) -> Response {
    let (sender, receiver) = mpsc::channel(WAITING);
    let (store, format) = (coordinator.trajectories(), question.format);
    task::spawn_blocking(move || {
        let pipe = Pipe { sender: sender.clone(), piece: Vec::new() };
        if let Err(error) = export::export(&*store, &question.filter, format, pipe) {
            tracing::warn!(%error, "an export was cut off");
            // Nobody may be there to hear it.
            let _ = sender.blocking_send(Err(io::Error::other(error.to_string())));
        }
    });
    let pieces = stream::unfold(receiver, async |mut receiver: mpsc::Receiver<io::Result<Bytes>>| {
        receiver.recv().await.map(|piece| (piece, receiver))
    });
    ([(header::CONTENT_TYPE, format.media_type())], Body::from_stream(pieces)).into_response()
}

/// Sends what is written to it, in pieces.
struct Pipe {
    sender: mpsc::Sender<io::Result<Bytes>>,
    piece: Vec<u8>,
}

impl Pipe {
    fn send(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::take(&mut self.piece);
        self.sender.blocking_send(Ok(piece.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

/// What is left goes with it; an error has been reported by then, or nobody is there to read.
impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = self.send();
    }
}

/// Import steps that were exported, as CSV or Parquet.
///
/// What is there already changes nothing. A file with a bad row is taken up to that row, and may be sent again. The audit
/// log has an entry before the first step is taken, and one with what came of it.
#[utoipa::path(
    post,
    path = "/v1/trajectories/import",
    operation_id = "import_steps",
    tag = "trajectories",
    request_body(
        description = "What an export wrote; at most 4 GiB",
        content((String = "text/csv"), (String = "application/vnd.apache.parquet"))
    ),
    responses((status = 200, description = "All of it is durable", body = Appended), Importing),
    security(("token" = ["operator"]))
)]
pub async fn import(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    _: NoQuery,
    request: Request,
) -> Response {
    let imported = take(&coordinator, &caller, request).await;
    respond(&coordinator, imported.and_then(|appended| encode(StatusCode::OK, &appended)))
}

/// Steps are in another database than the audit log, and an import may be many commits. So there is an entry before it,
/// and whatever becomes of it there is no import that nobody is named for.
async fn take(coordinator: &Coordinator, caller: &Caller, request: Request) -> Result<Appended, Refusal> {
    let formats = [Format::Csv, Format::Parquet];
    let format =
        formats.into_iter().find(|format| body::is(request.headers(), format.media_type())).ok_or_else(|| {
            let given = request.headers().get(header::CONTENT_TYPE).map_or("none".into(), |value| format!("{value:?}"));
            let bound = formats.map(Format::media_type).join(" or ");
            Refusal::new(Kind::UnsupportedMediaType, format!("the content type is {given}"))
                .blame("content-type")
                .bound(bound)
        })?;
    let (sender, receiver) = mpsc::channel(WAITING);
    let directory = coordinator.options().data_dir.clone();
    let kept = task::spawn_blocking(move || {
        // Without a name, so that a crash leaves nothing behind.
        keep(directory.map_or_else(tempfile::tempfile, tempfile::tempfile_in)?, receiver)
    });
    let mut pieces = request.into_body().into_data_stream();
    let mut size = 0;
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| Refusal::new(Kind::UnreadableBody, error.to_string()))?;
        size += piece.len() as u64;
        if size > LARGEST {
            let refusal = Refusal::new(Kind::BodyTooLarge, format!("the body has more than {LARGEST} bytes"));
            return Err(refusal.blame("body").bound(format!("at most {LARGEST} bytes")));
        }
        if sender.send(piece).await.is_err() {
            break;
        }
    }
    drop(sender);
    let failed = |reason| Refusal::from(Error::Io { what: "keeping an import", reason });
    let file = kept.await.map_err(|_| Refusal::from(Error::Closed))?.map_err(failed)?;
    let note = async |action, after| {
        let noted = coordinator.note(caller, action, "trajectories".to_owned(), [Value::Null, after]).await;
        noted.map_err(Refusal::from)
    };
    note("trajectories.import", json!({ "format": format.media_type(), "bytes": size })).await?;
    let importer = coordinator.clone();
    let taken = task::spawn_blocking(move || read(&importer, file, format)).await;
    let taken = taken.map_err(|_| Refusal::from(Error::Closed))??;
    note("trajectories.imported", json!(taken)).await?;
    Ok(taken)
}

fn keep(mut file: File, mut pieces: mpsc::Receiver<Bytes>) -> io::Result<File> {
    while let Some(piece) = pieces.blocking_recv() {
        file.write_all(&piece)?;
    }
    file.rewind()?;
    Ok(file)
}

fn read(coordinator: &Coordinator, file: File, format: Format) -> Result<Appended, Refusal> {
    let mut all = Appended::default();
    for batch in Batches::open(file, format)? {
        let batch = batch?;
        let appended = Handle::current().block_on(coordinator.import(batch.origin, batch.received, batch.steps));
        let appended = appended.map_err(Refusal::from)?;
        all.stored += appended.stored;
        all.known += appended.known;
    }
    Ok(all)
}
