//! Rows of a file back into steps: the same columns in CSV or Parquet, checked one by one.
//!
//! Importing a file twice changes nothing.

mod parquet;

use std::{collections::HashMap, fs::File, io::BufReader, str::FromStr};

use meanfield_common::{
    action::{Action, Step},
    identity::Epoch,
    invalid::Invalid,
    reward::Reward,
    state::LocalState,
    trajectory::{MOST_STEPS, Recorded, Verdict},
};

use super::{
    Origin,
    books::LONGEST,
    export::{COLUMNS, Format, Row},
    keys::EpisodeId,
    layout,
};

/// Steps that can be appended at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Whose.
    pub origin: Origin,
    /// When they arrived at first, in milliseconds since 1970.
    pub received: u64,
    /// The steps, in order.
    pub steps: Vec<Recorded>,
}

type Fields = Box<dyn Iterator<Item = Result<Vec<String>, Invalid>>>;

/// The batches of a file.
pub struct Batches {
    fields: Fields,
    row: u64,
    ahead: Option<Row>,
    /// The last step of each episode so far, and how many there are.
    episodes: HashMap<EpisodeId, (u32, u64)>,
}

/// The most episodes of a file, each of which is kept in mind.
const MOST_EPISODES: usize = 1_000_000;
/// The year 10000, in milliseconds since 1970: what is later cannot be written as RFC 3339 has it, and is no time but a
/// mistake of units.
pub const LATEST: u64 = 253_402_300_800_000;

impl Batches {
    /// Reads the head of a file.
    ///
    /// # Errors
    /// If it is not of this format or has other columns.
    pub fn open(file: File, format: Format) -> Result<Self, Invalid> {
        let fields = match format {
            Format::Csv => csv(file)?,
            Format::Parquet => parquet::rows(file)?,
        };
        Ok(Self { fields, row: 0, ahead: None, episodes: HashMap::new() })
    }

    fn row(&mut self) -> Result<Option<Row>, Invalid> {
        if let Some(row) = self.ahead.take() {
            return Ok(Some(row));
        }
        self.row += 1;
        let number = self.row;
        let named = |invalid: Invalid| Invalid { field: format!("row {number}, {}", invalid.field), ..invalid };
        let Some(fields) = self.fields.next() else { return Ok(None) };
        let row = fields.and_then(|fields| read(&fields)).and_then(|row| self.in_order(&row).map(|()| row));
        row.map(Some).map_err(named)
    }

    /// Steps of an episode come in order, each once, as an export has them: so a file cannot contradict itself.
    fn in_order(&mut self, row: &Row) -> Result<(), Invalid> {
        let id = EpisodeId { agent: row.agent, epoch: row.epoch, episode: row.step.episode };
        let known = self.episodes.get(&id).copied();
        if let Some((last, _)) = known.filter(|(last, _)| row.step.step <= *last) {
            return Err(Invalid::new("step", row.step.step, format!("above {last}, the episode's last before it")));
        }
        if known.is_none() && self.episodes.len() >= MOST_EPISODES {
            let bound = format!("one of at most {MOST_EPISODES} in a file");
            return Err(Invalid::new("episode", row.step.episode, bound));
        }
        let count = known.map_or(0, |(_, count)| count) + 1;
        if count > LONGEST {
            return Err(Invalid::new("step", row.step.step, format!("one of at most {LONGEST} of its episode")));
        }
        self.episodes.insert(id, (row.step.step, count));
        Ok(())
    }

    fn batch(&mut self) -> Result<Option<Batch>, Invalid> {
        let Some(first) = self.row()? else { return Ok(None) };
        let origin = origin(&first);
        let (received, mut steps) = (first.received, vec![first.step]);
        while steps.len() < MOST_STEPS
            && let Some(next) = self.row()?
        {
            let later = steps.last().is_some_and(|last| last.place() < next.step.place());
            if !later || next.received != received || self::origin(&next) != origin {
                self.ahead = Some(next);
                break;
            }
            steps.push(next.step);
        }
        Ok(Some(Batch { origin, received, steps }))
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, Invalid>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batch().transpose()
    }
}

fn origin(row: &Row) -> Origin {
    Origin { agent: row.agent, epoch: row.epoch, pool: row.pool.clone(), category: row.category }
}

fn check<'a>(found: impl Iterator<Item = &'a str>) -> Result<(), Invalid> {
    let found: Vec<_> = found.collect();
    if found == COLUMNS {
        Ok(())
    } else {
        Err(Invalid::new("columns", format!("{found:?}"), format!("those of an export: {}", COLUMNS.join(","))))
    }
}

fn csv(file: File) -> Result<Fields, Invalid> {
    let bad = |error: ::csv::Error| Invalid::new("body", error, "CSV");
    let mut reader = ::csv::Reader::from_reader(BufReader::new(file));
    check(reader.headers().map_err(bad)?.iter())?;
    let fields = |record: ::csv::StringRecord| record.iter().map(str::to_owned).collect();
    Ok(Box::new(reader.into_records().map(move |record| record.map(fields).map_err(bad))))
}

/// The fields of a row, taken in order.
struct Reading<'a> {
    fields: &'a [String],
    at: usize,
}

impl<'a> Reading<'a> {
    fn text(&mut self) -> (&'static str, &'a str) {
        let at = self.at;
        self.at += 1;
        (COLUMNS.get(at).copied().unwrap_or_default(), self.fields.get(at).map(String::as_str).unwrap_or_default())
    }

    fn named<T: FromStr<Err = Invalid>>(&mut self) -> Result<T, Invalid> {
        self.text().1.parse()
    }

    fn number<T: FromStr>(&mut self, bound: &str) -> Result<T, Invalid> {
        let (column, text) = self.text();
        text.parse().map_err(|_| Invalid::new(column, format!("{text:?}"), bound))
    }

    fn whole<T: FromStr>(&mut self) -> Result<T, Invalid> {
        self.number("a whole number")
    }

    fn state(&mut self) -> Result<LocalState, Invalid> {
        let column = COLUMNS.get(self.at).copied().unwrap_or_default();
        let mut numbers = [0.0; 7];
        for number in &mut numbers {
            *number = self.number("a number")?;
        }
        let bound = "a state of seven numbers within [-1, 1]";
        layout::state(numbers).ok_or_else(|| Invalid::new(column, format!("{numbers:?}"), bound))
    }

    fn lever(&mut self) -> Result<Step, Invalid> {
        self.whole::<i64>().and_then(Step::try_from)
    }
}

fn read(fields: &[String]) -> Result<Row, Invalid> {
    if fields.len() != COLUMNS.len() {
        return Err(Invalid::new("columns", fields.len(), format!("{} of them", COLUMNS.len())));
    }
    let mut reading = Reading { fields, at: 0 };
    let (agent, pool, category) = (reading.named()?, reading.named()?, reading.named()?);
    let epoch = Epoch(reading.whole()?);
    let (episode, step, received) = (reading.whole()?, reading.whole()?, reading.whole()?);
    if received >= LATEST {
        return Err(Invalid::new("received_ms", received, format!("below {LATEST}, the year 10000")));
    }
    let state = reading.state()?;
    let action = Action { cpu: reading.lever()?, memory: reading.lever()?, replicas: reading.lever()? };
    let reward = Reward::try_from(reading.number::<f64>("a number")?)?;
    let next_state = reading.state()?;
    let verdicts: Result<Vec<Verdict>, _> = reading.text().1.split_whitespace().map(str::parse).collect();
    let step = Recorded { episode, step, state, action, reward, next_state, verdicts: verdicts?.try_into()? };
    Ok(Row { agent, pool, category, epoch, received, step })
}
