//! Other engines, each in a process of its own that is asked line by line, so that its start never counts.

use std::{
    io::{BufRead, BufReader, ErrorKind, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, bail};

/// What the script ends with where PyTorch is not installed; Python's own errors are 1.
const MISSING: i32 = 3;
const SCRIPT: &str = include_str!("ppo.py");

/// A running engine.
#[derive(Debug)]
pub(super) struct Peer {
    name: String,
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// PyTorch; `None` where there is no Python or no PyTorch.
    pub(super) fn pytorch(python: &Path) -> anyhow::Result<Option<Self>> {
        let mut peer = match Self::start(Command::new(python).args(["-c", SCRIPT]), "PyTorch") {
            Ok(peer) => peer,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| python.display().to_string()),
        };
        // The first figure warms up, and shows whether anybody is there.
        match peer.ask("update", 1) {
            Ok(_) => Ok(Some(peer)),
            Err(_) if peer.child.wait()?.code() == Some(MISSING) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// LibTorch through `tch`: the learner's example `torch_peer`.
    pub(super) fn libtorch(program: &Path) -> anyhow::Result<Self> {
        let mut peer =
            Self::start(&mut Command::new(program), "LibTorch").with_context(|| program.display().to_string())?;
        peer.ask("update", 1)?;
        Ok(peer)
    }

    fn start(command: &mut Command, name: &str) -> std::io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take()).ok_or(ErrorKind::BrokenPipe)?;
        Ok(Self { name: name.to_owned(), child, questions: pipes.0, answers: BufReader::new(pipes.1) })
    }

    /// Seconds of one `what`, measured over `count` of them.
    pub(super) fn ask(&mut self, what: &str, count: u32) -> anyhow::Result<f64> {
        let name = &self.name;
        writeln!(self.questions, "{what} {count}").with_context(|| format!("{name} ended"))?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        if answer.is_empty() {
            bail!("{name} ended without an answer to `{what}`");
        }
        answer.trim().parse().with_context(|| format!("{name} answered {answer:?}"))
    }
}

impl Drop for Peer {
    /// No process is left behind, whatever went wrong.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
