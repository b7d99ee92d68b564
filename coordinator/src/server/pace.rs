//! A connection with time limits, so that nobody can hold one by being slow.
//!
//! A head must be whole soon after its first byte, however its bytes trickle in; between requests there may be silence
//! for longer; and an answer must be taken. (The body of a request has its limit where it is read.) hyper's own limit
//! for heads would count the silence between requests too, and set up a timer for every request; here there is one for
//! the connection, which looks at what happened since when it fires.

use std::{
    future::Future,
    io, mem,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::unconstrained,
    time::{Instant, Sleep, sleep_until},
};

use crate::options::Limits;

/// What a connection is waiting for. Shared with whoever handles its requests, in the same task.
#[derive(Debug, Clone, Default)]
pub(super) struct Phase(Arc<AtomicU8>);

/// The head of a request, whose first byte was seen. A new connection owes one at once.
const HEAD: u8 = 0;
/// Our own answer.
const SERVING: u8 = 1;
/// The first byte of the next request.
const SILENCE: u8 = 2;
/// Nothing more: it was too slow.
const CUT: u8 = 3;

impl Phase {
    /// The head is whole.
    pub(super) fn serving(&self) {
        self.0.store(SERVING, Ordering::Relaxed);
    }

    /// Whether the client was too slow. Silence between requests is nobody's fault.
    pub(super) fn is_cut(&self) -> bool {
        self.0.load(Ordering::Relaxed) == CUT
    }

    /// The answer is known.
    pub(super) fn answered(&self) {
        self.0.store(SILENCE, Ordering::Relaxed);
    }
}

/// A stream that fails when the other side is too slow.
pub(super) struct Paced<S> {
    stream: S,
    phase: Phase,
    limits: Limits,
    timer: Pin<Box<Sleep>>,
    /// Whom the timer wakes.
    woken: Option<Waker>,
    /// When the last head began.
    head: Instant,
    /// When an answer was last seen to move, as of the last time that the timer fired.
    moved: Instant,
    /// Whether one has moved since.
    wrote: bool,
    /// Since when nothing of an answer is taken.
    stalled: Option<Instant>,
}

impl<S> Paced<S> {
    pub(super) fn new(stream: S, phase: Phase, limits: Limits) -> Self {
        let now = Instant::now();
        let timer = Box::pin(sleep_until(now + limits.shortest_time()));
        Self { stream, phase, limits, timer, woken: None, head: now, moved: now, wrote: false, stalled: None }
    }

    fn heard(&mut self) {
        if self.phase.0.load(Ordering::Relaxed) == SILENCE {
            self.phase.0.store(HEAD, Ordering::Relaxed);
            self.head = Instant::now();
        }
    }

    fn deadline(&self, now: Instant) -> Instant {
        let read = match self.phase.0.load(Ordering::Relaxed) {
            HEAD => self.head + self.limits.head_time,
            SILENCE => self.head.max(self.moved) + self.limits.idle_time,
            CUT => now,
            _ => now + self.limits.shortest_time(),
        };
        self.stalled.map_or(read, |since| read.min(since + self.limits.write_time))
    }

    /// Nothing moves: whether that was so for too long.
    fn wait<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        // Most of the time nothing has changed since the last look, which costs less than to ask the timer again.
        if !self.timer.is_elapsed() && self.woken.as_ref().is_some_and(|woken| woken.will_wake(context.waker())) {
            return Poll::Pending;
        }
        loop {
            // It must hear of the waker, also where a task has had its turn.
            if pin!(unconstrained(self.timer.as_mut())).poll(context).is_pending() {
                self.woken = Some(context.waker().clone());
                return Poll::Pending;
            }
            let now = Instant::now();
            if mem::take(&mut self.wrote) {
                self.moved = now;
            }
            let deadline = self.deadline(now);
            if deadline <= now {
                if self.stalled.is_some() || self.phase.0.load(Ordering::Relaxed) == HEAD {
                    self.phase.0.store(CUT, Ordering::Relaxed);
                }
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            // Never far ahead: a phase that begins in the meantime may have a nearer deadline.
            self.timer.as_mut().reset(deadline.min(now + self.limits.shortest_time()));
        }
    }

    fn written<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_pending() {
            self.stalled.get_or_insert_with(Instant::now);
            return self.wait(context);
        }
        self.stalled = None;
        self.wrote = true;
        done
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_pending() {
            return self.wait(context);
        }
        if buffer.filled().len() > before {
            self.heard();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.written(context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(context) {
            Poll::Pending => self.written(context, Poll::Pending),
            // Flushing nothing is no sign of life.
            done => done,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(context);
        self.written(context, done)
    }
}
