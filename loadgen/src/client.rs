//! A lean HTTP/1.1 client: one keep-alive connection, prepared requests, answers by content length.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

use crate::tls::Tls;

/// The longest answer that is read.
const LONGEST: usize = 16 << 20;

/// The media type of most requests.
pub const JSON: &str = "application/json";

/// One connection.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    buffer: Vec<u8>,
    filled: usize,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl Stream {
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.write_all(bytes).await,
            Self::Secure(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
        }
    }

    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer).await,
            Self::Secure(stream) => stream.read(buffer).await,
        }
    }
}

/// One answer; the body lies in the connection until the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: &'a [u8],
}

/// A prepared request with a body.
#[must_use]
pub fn post(path: &str, token: &str, media_type: &str, body: &[u8]) -> Vec<u8> {
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

impl Connection {
    /// Connects, by https if it is said how.
    pub async fn open(address: SocketAddr, tls: Option<&Tls>) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let stream = match tls {
            Some(tls) => Stream::Secure(Box::new(tls.connect(stream).await?)),
            None => Stream::Plain(stream),
        };
        Ok(Self { stream, buffer: vec![0; 4096], filled: 0 })
    }

    /// Sends a prepared request and waits for its answer.
    pub async fn send(&mut self, request: &[u8]) -> io::Result<Answer<'_>> {
        self.stream.write(request).await?;
        self.filled = 0;
        loop {
            if self.filled == self.buffer.len() {
                if self.filled >= LONGEST {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is too long"));
                }
                self.buffer.resize(self.filled * 2, 0);
            }
            let read = self.stream.read(&mut self.buffer[self.filled..]).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.filled += read;
            if let Some((status, body, end)) = head(&self.buffer[..self.filled])?
                && self.filled >= end
            {
                return Ok(Answer { status, body: &self.buffer[body..end] });
            }
        }
    }
}

/// Status, start of the body and its end; `None` while the head is incomplete.
fn head(bytes: &[u8]) -> io::Result<Option<(u16, usize, usize)>> {
    let bad = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| bad("a head that is not text"))?;
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| bad("no status"))?;
    let length =
        lines.filter_map(|line| line.split_once(':')).find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = match length {
        Some((_, length)) => length.trim().parse().map_err(|_| bad("a bad content length"))?,
        None => 0,
    };
    Ok(Some((status, end + 4, end + 4 + length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_heads_whole_or_not_at_all() {
        let answer = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}";
        for cut in 0..answer.len() - 2 {
            assert_eq!(head(&answer[..cut]).unwrap(), None, "{cut}");
        }
        let (status, body, end) = head(answer).unwrap().unwrap();
        assert_eq!((status, &answer[body..end]), (201, &b"{}"[..]));
        assert!(head(b"nonsense\r\n\r\n").is_err());
        assert!(head(b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n").is_err());
    }
}
