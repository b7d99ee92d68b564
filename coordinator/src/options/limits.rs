//! How much one client may take: of requests, of connections, of bytes and of time.

use std::time::Duration;

use meanfield_common::invalid::Invalid;

/// Requests a second that a token may make, unless it was made with a rate of its own; 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// With an agents' token, which many agents may share, and with the coordinator's own.
    pub agents: u32,
    /// With any other.
    pub others: u32,
}

impl Default for Rates {
    fn default() -> Self {
        Self { agents: 200_000, others: 500 }
    }
}

/// What a connection may take, and how many there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest request body in bytes, but for files, which say their own.
    pub body: usize,
    /// The largest head of a request in bytes: the request line and all headers. There may be 100 headers.
    pub head: usize,
    /// How many connections may be open at once; further ones are closed at once.
    pub connections: usize,
    /// How long a TLS handshake may take, and the head of a request from its first byte on.
    pub head_time: Duration,
    /// How long the body of a request may take.
    pub body_time: Duration,
    /// How long a connection may be silent between two requests.
    pub idle_time: Duration,
    /// How long a client may take nothing of an answer.
    pub write_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 16 * 1024,
            head: 16 * 1024,
            connections: 16 * 1024,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(20),
            // Agents beat every quarter of a minute over a connection that they keep.
            idle_time: Duration::from_secs(90),
            write_time: Duration::from_secs(20),
        }
    }
}

impl Limits {
    /// The shortest of the times.
    pub(crate) fn shortest_time(&self) -> Duration {
        self.head_time.min(self.idle_time).min(self.write_time)
    }

    pub(super) fn validate(&self) -> Result<(), Invalid> {
        const LEAST: usize = 1024;
        for (field, bytes) in [("max_body", self.body), ("max_head", self.head)] {
            if bytes < LEAST {
                return Err(Invalid::new(field, bytes, format!("at least {LEAST} bytes")));
            }
        }
        if self.connections == 0 {
            return Err(Invalid::new("max_connections", 0, "at least 1"));
        }
        for (field, time) in [
            ("head_time", self.head_time),
            ("body_time", self.body_time),
            ("idle_time", self.idle_time),
            ("write_time", self.write_time),
        ] {
            if time < Duration::from_millis(1) {
                return Err(Invalid::new(field, format!("{} s", time.as_secs_f64()), "at least 1 ms"));
            }
        }
        Ok(())
    }
}
