//! Rows as lines of text. Verdicts are separated by blanks.

use std::io::Write;

use super::{COLUMNS, Error, Row, Rows};
use crate::trajectories::layout::numbers;

/// Writes CSV.
pub struct Csv<W: Write>(::csv::Writer<W>);

impl<W: Write> Csv<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(to: W) -> Result<Self, Error> {
        let mut writer = ::csv::Writer::from_writer(to);
        writer.write_record(COLUMNS).map_err(failed)?;
        Ok(Self(writer))
    }
}

impl<W: Write> Rows for Csv<W> {
    fn row(&mut self, row: Row) -> Result<(), Error> {
        let Row { agent, pool, category, epoch, received, step } = row;
        let mut fields = vec![
            agent.to_string(),
            pool.to_string(),
            category.name().to_owned(),
            epoch.0.to_string(),
            step.episode.to_string(),
            step.step.to_string(),
            received.to_string(),
        ];
        // The shortest text that reads back as the same float.
        fields.extend(numbers(&step.state).map(|number| number.to_string()));
        let levers = [step.action.cpu, step.action.memory, step.action.replicas];
        fields.extend(levers.map(|lever| lever.sign().to_string()));
        fields.push(step.reward.get().to_string());
        fields.extend(numbers(&step.next_state).map(|number| number.to_string()));
        fields.push(verdicts(&step));
        self.0.write_record(&fields).map_err(failed)
    }

    fn finish(mut self: Box<Self>) -> Result<(), Error> {
        self.0.flush().map_err(|error| Error::Write(error.to_string()))
    }
}

pub(super) fn verdicts(step: &meanfield_common::trajectory::Recorded) -> String {
    step.verdicts.as_slice().iter().map(|verdict| verdict.as_str()).collect::<Vec<_>>().join(" ")
}

#[allow(clippy::needless_pass_by_value)] // as map_err hands it over
fn failed(error: ::csv::Error) -> Error {
    Error::Write(error.to_string())
}
