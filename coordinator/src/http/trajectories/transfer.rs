//! All steps as a file, and back: `GET /v1/trajectories/export`, `POST /v1/trajectories/import`.
//!
//! An export is sent while it is read, some kilobytes at a time, and waits for a slow reader. One that fails half-way is
//! cut off, so that nobody takes a part for the whole. An import is kept in a file until all of it is here, and is read
//! twice: nothing is taken until every row is known to be good and to fit what is there.

use std::{
    fs::File,
    io::{self, Seek, Write},
    sync::{Arc, Weak},
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
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, mpsc},
    task,
    time::timeout,
};

use super::{
    super::{
        agents::encode,
        auth::{Operator, Reader},
        body::{self, slow},
        openapi::{Exporting, Importing},
        problem::{Kind, Refusal, respond},
        terms::{Dry, DryRun},
    },
    question::{EXPORT, Question},
};
use crate::{
    access::Caller,
    coordinator::{Coordinator, TRANSFERS},
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
        Exporting
    ),
    security(("token" = ["reader"]))
)]
pub async fn export(State(coordinator): State<Coordinator>, _: Reader, question: Question<EXPORT>) -> Response {
    let Some(leave) = coordinator.transfer() else { return Refusal::busy(TRANSFERS).respond(&coordinator) };
    let (sender, receiver) = mpsc::channel(WAITING);
    let (store, format) = (coordinator.trajectories(), question.format);
    task::spawn_blocking(move || {
        let _leave = leave;
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
/// What is there already changes nothing. Of a file with a bad row, or with one that is known with other content, nothing is
/// taken. A dry run says how many steps would be stored and how many are known. The audit log has an entry before the first
/// step is taken, and one with what came of it.
#[utoipa::path(
    post,
    path = "/v1/trajectories/import",
    operation_id = "import_steps",
    tag = "trajectories",
    params(DryRun),
    request_body(
        description = "What an export wrote; at most 4 GiB",
        content((String = "text/csv"), (String = "application/vnd.apache.parquet"))
    ),
    responses((status = 200, description = "All of it is durable, or would be", body = Appended), Importing),
    security(("token" = ["operator"]))
)]
pub async fn import(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Dry(dry_run): Dry,
    request: Request,
) -> Response {
    let imported = take(&coordinator, &caller, dry_run, request).await;
    respond(&coordinator, imported.and_then(|appended| encode(StatusCode::OK, &appended)))
}

/// Steps are in another database than the audit log, and an import may be many commits. So there is an entry before it,
/// and whatever becomes of it there is no import that nobody is named for.
async fn take(
    coordinator: &Coordinator,
    caller: &Caller,
    dry_run: bool,
    request: Request,
) -> Result<Appended, Refusal> {
    let leave = Arc::new(coordinator.transfer().ok_or_else(|| Refusal::busy(TRANSFERS))?);
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
    // A large file takes its time, but it comes: no piece of it is waited for longer than for a whole small one.
    let time = coordinator.options().limits.body_time;
    while let Some(piece) = timeout(time, pieces.next()).await.map_err(|_| slow(time))? {
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
    let pass = async |dry_run| {
        let file = file.try_clone().and_then(|mut file| file.rewind().map(|()| file)).map_err(failed)?;
        // Nobody waits for it any more once this is dropped.
        let (importer, waiting) = (coordinator.clone(), Arc::downgrade(&leave));
        let read = task::spawn_blocking(move || read(&importer, file, format, dry_run, &waiting)).await;
        read.map_err(|_| Refusal::from(Error::Closed))?
    };
    let weighed = pass(true).await?;
    if dry_run {
        return Ok(weighed);
    }
    let note = async |action, after| {
        let noted = coordinator.note(caller, action, "trajectories".to_owned(), [Value::Null, after]).await;
        noted.map_err(Refusal::from)
    };
    note("trajectories.import", json!({ "format": format.media_type(), "bytes": size })).await?;
    let taken = pass(false).await?;
    note("trajectories.imported", json!(taken)).await?;
    Ok(taken)
}

fn keep(mut file: File, mut pieces: mpsc::Receiver<Bytes>) -> io::Result<File> {
    while let Some(piece) = pieces.blocking_recv() {
        file.write_all(&piece)?;
    }
    Ok(file)
}

/// Ends between two batches when the coordinator does, or nobody waits.
fn read(
    coordinator: &Coordinator,
    file: File,
    format: Format,
    dry_run: bool,
    waiting: &Weak<OwnedSemaphorePermit>,
) -> Result<Appended, Refusal> {
    let mut all = Appended::default();
    for batch in Batches::open(file, format)? {
        if coordinator.draining() || waiting.strong_count() == 0 {
            return Err(Error::Closed.into());
        }
        let appended = Handle::current().block_on(coordinator.import(batch?, dry_run)).map_err(Refusal::from)?;
        all.stored += appended.stored;
        all.known += appended.known;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use meanfield_common::{
        action::Action, identity::Category, mean_field::Aspects, reward::Reward, state::LocalState,
        trajectory::Recorded, wire::Register,
    };
    use tower::ServiceExt;

    use super::*;
    use crate::{Clock, Options, http, trajectories::query::Filter};

    #[tokio::test]
    async fn so_many_files_are_under_way_and_no_more() {
        let coordinator = Coordinator::open(Options::default(), Clock::manual()).unwrap();
        let router = http::router(coordinator.clone());
        let ask = async || {
            let token = format!("Bearer {}", coordinator.token());
            let request = Request::get("/v1/trajectories/export").header(header::AUTHORIZATION, token);
            router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
        };
        let mut others: Vec<_> = (0..TRANSFERS).map(|_| coordinator.transfer().unwrap()).collect();
        let refused = ask().await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
        others.pop();
        assert_eq!(ask().await.status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn an_import_ends_when_nobody_waits_or_the_coordinator_ends() {
        let coordinator = Coordinator::open(Options::default(), Clock::manual()).unwrap();
        let (name, pool) = ("a".parse().unwrap(), "default".parse().unwrap());
        let register = Register { name, pool, category: Category::Cpu, wants: Aspects::NONE };
        let a = coordinator.register(register).await.unwrap();
        let steps = vec![Recorded {
            episode: 1,
            step: 0,
            state: LocalState::default(),
            action: Action::HOLD,
            reward: Reward::default(),
            next_state: LocalState::default(),
            verdicts: Vec::new().try_into().unwrap(),
        }];
        let append = meanfield_common::trajectory::Append {
            epoch: a.epoch,
            steps: steps.try_into().unwrap(),
            dropped: Default::default(),
        };
        coordinator.append(a.agent, append).await.unwrap();
        let mut file = tempfile::tempfile().unwrap();
        let copy = file.try_clone().unwrap();
        export::export(&*coordinator.trajectories(), &Filter::default(), Format::Csv, copy).unwrap();
        let leave = Arc::new(coordinator.transfer().unwrap());
        let waiting = Arc::downgrade(&leave);
        let mut read_again = async || {
            file.rewind().unwrap();
            let (coordinator, file, waiting) = (coordinator.clone(), file.try_clone().unwrap(), waiting.clone());
            let read = move || read(&coordinator, file, Format::Csv, false, &waiting);
            task::spawn_blocking(read).await.unwrap()
        };
        assert_eq!(read_again().await.unwrap().known, 1);
        drop(leave);
        assert!(read_again().await.is_err(), "nobody waits");
        let leave = Arc::new(coordinator.transfer().unwrap());
        coordinator.drain();
        let waiting = Arc::downgrade(&leave);
        file.rewind().unwrap();
        let drained = task::spawn_blocking(move || read(&coordinator, file, Format::Csv, true, &waiting)).await;
        assert!(drained.unwrap().is_err(), "it ends");
    }
}
