//! `meanfield ctl events follow`: server-sent events, one a line.

use meanfield_coordinator::events::{Event, Kind};
use reqwest::Response;

use super::{
    args::{EventsCommand, Follow, Format},
    audit::time,
    client::Client,
    output,
};

pub async fn run(command: &EventsCommand) -> anyhow::Result<()> {
    let EventsCommand::Follow(args) = command;
    follow(args).await
}

async fn follow(args: &Follow) -> anyhow::Result<()> {
    let client = Client::new(&args.access)?;
    let mut query = Vec::new();
    query.extend(args.pool.as_ref().map(|pool| ("pool", pool.to_string())));
    if !args.kinds.is_empty() {
        let kinds: Vec<_> = args.kinds.iter().map(|kind| kind.name()).collect();
        query.push(("kind", kinds.join(",")));
    }
    let (mut after, mut shown) = (args.after, 0);
    loop {
        let mut stream = Frames::new(client.watch(&query, after).await?);
        loop {
            let Some(event) = stream.next().await? else {
                let hint = after.map_or(String::new(), |id| format!("; `--after {id}` goes on"));
                anyhow::bail!("the coordinator ended without a word{hint}");
            };
            after = Some(event.id);
            show(client.format, &event)?;
            shown += 1;
            if event.kind == Kind::Closing || args.count.is_some_and(|count| shown >= count) {
                return Ok(());
            }
            // Too slow, and told so: from here on again.
            if event.kind == Kind::Dropped {
                break;
            }
        }
    }
}

fn show(format: Format, event: &Event) -> anyhow::Result<()> {
    if format != Format::Table {
        output::one(format, &serde_json::to_value(event)?);
        return Ok(());
    }
    let Event { id, at_ms, kind, pool, agent, name, detail } = event;
    let mut words = vec![time(*at_ms), id.to_string(), format!("{:<9}", kind.name())];
    words.extend(pool.as_ref().map(ToString::to_string));
    words.extend(name.as_ref().map(ToString::to_string).or_else(|| agent.map(|agent| agent.to_string())));
    words.extend(detail.as_ref().map(output::cell));
    say!("{}", words.join("  ").trim_end());
    Ok(())
}

/// The frames of a stream, as they come in parts of any size.
struct Frames {
    response: Response,
    bytes: Vec<u8>,
}

impl Frames {
    fn new(response: Response) -> Self {
        Self { response, bytes: Vec::new() }
    }

    async fn next(&mut self) -> anyhow::Result<Option<Event>> {
        loop {
            if let Some(end) = self.bytes.windows(2).position(|pair| pair == b"\n\n") {
                let frame: Vec<u8> = self.bytes.drain(..end + 2).collect();
                let frame = String::from_utf8_lossy(&frame);
                let data: Vec<_> = frame.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
                // Comments keep the connection alive and say nothing.
                if !data.is_empty() {
                    return Ok(Some(serde_json::from_str(&data.join("\n"))?));
                }
                continue;
            }
            match self.response.chunk().await? {
                Some(part) => self.bytes.extend_from_slice(&part),
                None => return Ok(None),
            }
        }
    }
}
