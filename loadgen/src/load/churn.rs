//! Agents that come and go: every other planned time one joins and reports, and every other time it leaves.

use std::{io, time::Instant};

use meanfield_common::wire::{Leave, Registered};

use super::{Load, Measured, Progress};
use crate::{
    client::{Connection, JSON, post},
    pace::{Pace, until},
    swarm::registration,
};

/// How many names they take turns with: those who come back get a new epoch.
const NAMES: u64 = 1000;

pub(super) async fn run(load: Load, progress: Progress, start: Instant) -> io::Result<Measured> {
    let (pace, swarm) = (Pace::per_second(load.churn), &load.swarm);
    let mut link = swarm.connect().await?;
    let mut member: Option<Registered> = None;
    for number in 0.. {
        let due = pace.due(number);
        if due >= load.duration {
            break;
        }
        until(start + due).await;
        match member.take() {
            Some(Registered { agent, epoch, .. }) => {
                let body = serde_json::to_vec(&Leave { epoch })?;
                let request = post(&format!("/v1/agents/{agent}/leave"), &swarm.token, JSON, &body);
                if expect(&mut link, &request, 204, &progress).await?.is_some() {
                    progress.left();
                }
            }
            None => {
                let name = format!("churn-{}", number / 2 % NAMES);
                let request = registration(swarm, &name, number as usize)?;
                let Some(body) = expect(&mut link, &request, 201, &progress).await? else { continue };
                let registered: Registered = serde_json::from_slice(&body)?;
                progress.joined();
                expect(&mut link, &swarm.heartbeat(registered.agent, registered.epoch, 1)?, 200, &progress).await?;
                member = Some(registered);
            }
        }
    }
    Measured::new()
}

/// The body of an answer that must have this status.
async fn expect(
    link: &mut Connection,
    request: &[u8],
    status: u16,
    progress: &Progress,
) -> io::Result<Option<Vec<u8>>> {
    let answer = link.send(request).await?;
    if answer.status == status {
        return Ok(Some(answer.body.to_vec()));
    }
    progress.surprise(|| format!("{} instead of {status}: {}", answer.status, String::from_utf8_lossy(answer.body)));
    Ok(None)
}
