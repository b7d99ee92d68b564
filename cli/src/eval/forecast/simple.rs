//! Simple forecasts to stand beside the network. Each gives one number; how far what came was off from it in the past
//! gives the quantiles (split conformal, over a rolling window).

use std::collections::VecDeque;

use meanfield_agent::policy::outlook::{Foresee, Outlook, Spread};
use meanfield_learner::forecast::{HORIZONS, History, LEVELS};

use super::fitted::{Fitted, REFIT};

/// Steps of errors that are remembered: four hours of 15 s.
const WINDOW: usize = 960;
/// Steps of the recent peak, and smoothing of the level and its trend.
const PEAK: usize = 8;
const LEVEL: f64 = 0.3;
const TREND: f64 = 0.05;
const DAMPED: f64 = 0.9;

/// How the number comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// As now.
    Naive,
    /// As one detected period ago, in proportion to how the load stood then; as now without a period.
    Seasonal,
    /// As the highest of two minutes.
    PeakHold,
    /// Exponential smoothing with a damped trend: Holt's ETS(A,Ad,N) with fixed weights.
    Holt,
    /// The same family with weights and trend as fitted once an hour; as now without a fit.
    Ets,
    /// ETS and a season of the detected period, if there is one.
    Mstl,
}

/// A rule with its errors.
pub struct Simple {
    rule: Rule,
    history: History,
    rates: VecDeque<f64>,
    level: f64,
    trend: f64,
    fitted: Option<Fitted>,
    pending: VecDeque<([f64; HORIZONS.len()], [f64; HORIZONS.len()], usize)>,
    errors: [VecDeque<f64>; HORIZONS.len()],
    seconds: f64,
}

impl Simple {
    pub fn new(rule: Rule) -> Self {
        Self {
            rule,
            history: History::default(),
            rates: VecDeque::new(),
            level: 0.0,
            trend: 0.0,
            fitted: None,
            pending: VecDeque::new(),
            errors: [VecDeque::new(), VecDeque::new()],
            seconds: 15.0,
        }
    }

    fn log(&self, rate: f64) -> f64 {
        (rate + 1.0 / self.seconds).ln()
    }

    /// The rate of a logarithm.
    fn rate(&self, log: f64) -> f64 {
        (log.exp() - 1.0 / self.seconds).max(0.0)
    }

    fn ago(&self, steps: usize) -> f64 {
        let last = self.rates.len().saturating_sub(1);
        self.rates.get(last.saturating_sub(steps)).copied().unwrap_or(0.0)
    }

    /// The highest rate of the next `horizon` steps, as the rule has it.
    fn point(&self, horizon: usize) -> f64 {
        let now = self.ago(0);
        match self.rule {
            Rule::Naive => now,
            Rule::PeakHold => self.rates.iter().rev().take(PEAK).copied().fold(0.0, f64::max),
            Rule::Holt => {
                let ahead = |step: usize| (1..=step).map(|k| DAMPED.powi(k as i32)).sum::<f64>();
                (self.level + self.trend.max(0.0) * ahead(horizon)).max(0.0)
            }
            Rule::Ets | Rule::Mstl => {
                let highest = self.fitted.as_ref().and_then(|fitted| fitted.highest(horizon));
                highest.map_or(now, |highest| self.rate(highest))
            }
            Rule::Seasonal => {
                let Some(period) = self.history.period() else { return now };
                let then = (1..=horizon).map(|ahead| self.ago(period.saturating_sub(ahead))).fold(0.0, f64::max);
                let stood = (0..20).map(|steps| self.ago(period + steps)).sum::<f64>() / 20.0;
                let stands = (0..20).map(|steps| self.ago(steps)).sum::<f64>() / 20.0;
                if stood > 0.0 { then * stands / stood } else { now }
            }
        }
    }

    /// Shows the fit the newest rate, or makes the next one.
    fn fit(&mut self, rate: f64) {
        let value = self.log(rate);
        if self.fitted.as_mut().is_some_and(|fitted| fitted.push(value)) || !self.rates.len().is_multiple_of(REFIT) {
            return;
        }
        let series: Vec<f64> = self.rates.iter().map(|rate| self.log(*rate)).collect();
        let period = if self.rule == Rule::Mstl { self.history.period() } else { None };
        // Without a fit it is as now.
        self.fitted = Fitted::new(&series, period).ok();
    }

    fn settle(&mut self, rate: f64) {
        for (_, highest, age) in &mut self.pending {
            *age += 1;
            for (highest, horizon) in highest.iter_mut().zip(HORIZONS) {
                if *age <= horizon {
                    *highest = highest.max(rate);
                }
            }
        }
        while let Some((points, highest, _)) = self.pending.pop_front_if(|(_, _, age)| *age >= HORIZONS[1]) {
            for (row, (point, came)) in points.into_iter().zip(highest).enumerate() {
                let error = self.log(came) - self.log(point);
                if self.errors[row].len() >= WINDOW {
                    self.errors[row].pop_front();
                }
                self.errors[row].push_back(error);
            }
        }
    }
}

impl Foresee for Simple {
    fn name(&self) -> &'static str {
        match self.rule {
            Rule::Naive => "naive",
            Rule::Seasonal => "seasonal naive",
            Rule::PeakHold => "recent peak",
            Rule::Holt => "Holt, damped",
            Rule::Ets => "ETS",
            Rule::Mstl => "MSTL",
        }
    }

    fn outlook(&mut self, rate: f64, seconds: f64) -> Outlook {
        self.seconds = seconds;
        self.settle(rate);
        self.history.push(rate, seconds);
        self.rates.push_back(rate);
        let before = if self.rates.len() == 1 { rate } else { self.level };
        self.level = LEVEL * rate + (1.0 - LEVEL) * (before + DAMPED * self.trend);
        self.trend = TREND * (self.level - before) + (1.0 - TREND) * DAMPED * self.trend;
        if matches!(self.rule, Rule::Ets | Rule::Mstl) {
            self.fit(rate);
        }
        let points = HORIZONS.map(|horizon| self.point(horizon));
        self.pending.push_back((points, [0.0; HORIZONS.len()], 0));
        let spread = |row: usize| {
            let mut errors: Vec<f64> = self.errors[row].iter().copied().collect();
            errors.sort_unstable_by(f64::total_cmp);
            Spread(LEVELS.map(|level| {
                let at = (level * (errors.len() + 1) as f64).ceil() as usize;
                let error =
                    errors.get(at.saturating_sub(1).min(errors.len().saturating_sub(1))).copied().unwrap_or(0.0);
                self.rate(self.log(points[row]) + error)
            }))
        };
        Outlook { next: spread(0), ahead: spread(1) }
    }

    fn reset(&mut self) {
        *self = Self::new(self.rule);
    }
}
