//! A bar on a terminal; plain lines, ten in all, anywhere else.

use std::{
    cell::{Cell, RefCell},
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

/// How much of the newest figures a moving mean takes in.
const FOLLOW: f64 = 0.1;

/// Progress with reward, SLO violations and reserved cores as they move.
pub struct Bar {
    name: &'static str,
    total: u64,
    done: Cell<u64>,
    figures: RefCell<Option<[f64; 3]>>,
    bar: Option<ProgressBar>,
    started: Instant,
}

impl Bar {
    pub fn new(name: &'static str, total: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style =
                ProgressStyle::with_template("{prefix:>8} {bar:32.cyan/blue} {pos:>4}/{len} {elapsed:>4}  {msg}");
            let bar = ProgressBar::new(total).with_prefix(name);
            if let Ok(style) = style {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { name, total, done: Cell::new(0), figures: RefCell::new(None), bar, started: Instant::now() }
    }

    /// One step further.
    pub fn step(&self, reward: f64, violations: f64, cores: f64) {
        let now = [reward, violations, cores];
        let mut figures = self.figures.borrow_mut();
        let mean = figures.get_or_insert(now);
        for (mean, now) in mean.iter_mut().zip(now) {
            *mean += FOLLOW * (now - *mean);
        }
        let [reward, violations, cores] = *mean;
        let message = format!("reward {reward:6.3}  SLO violations {:5.2} %  {cores:5.1} cores", 100.0 * violations);
        self.done.set(self.done.get() + 1);
        let done = self.done.get();
        match &self.bar {
            Some(bar) => {
                bar.set_position(done);
                bar.set_message(message);
            }
            None if done == 1 || done * 10 / self.total != (done - 1) * 10 / self.total => {
                say!(
                    "{:>8} {done:>4}/{} {:5.1} s  {message}",
                    self.name,
                    self.total,
                    self.started.elapsed().as_secs_f64()
                );
            }
            None => {}
        }
    }

    /// Something happened.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(format!("{:>8} {text}", self.name)),
            None => say!("{:>8} {text}", self.name),
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish();
        }
    }
}
