//! ETS and MSTL of the library `augurs`, fitted anew once an hour, since a fit takes as long as hundreds of steps of the
//! other simple forecasts (about 20 ms).
//!
//! A fit says how the logarithm of the rate goes on. Until the next fit this is lifted by how far the newest rates are
//! off, smoothed with the gain that the fit had itself. Where ETS has chosen no trend, that is exactly ETS with the
//! weight of the last fit; a trend or a season goes on as it was fitted.

use augurs::{Fit, Predict, ets::AutoETS, mstl::MSTLModel};
use meanfield_learner::forecast::HORIZONS;

/// Steps between two fits: an hour of 15 s. The first fit has as many to learn from.
pub const REFIT: usize = 240;
/// Steps that a fit looks at: four hours, or three periods where that is more.
const WINDOW: usize = 960;
const PERIODS: usize = 3;
/// Errors are added, since they are those of a logarithm; with or without a trend, damped or not, as the AICc has it.
const FAMILY: &str = "AZN";

/// How a series goes on.
pub struct Fitted {
    /// From the step after the fit on.
    ahead: Vec<f64>,
    gain: f64,
    lift: f64,
    age: usize,
}

impl Fitted {
    /// Fits the end of a series: ETS to what is left of it without its season, if a period is given, or ETS alone.
    /// A period that the series does not hold twice counts as none.
    pub fn new(series: &[f64], period: Option<usize>) -> anyhow::Result<Self> {
        let period = period.filter(|period| *period > 1 && 2 * period <= series.len());
        let length = period.map_or(WINDOW, |period| WINDOW.max(PERIODS * period)).min(series.len());
        let series = &series[series.len() - length..];
        let ets = AutoETS::new(1, FAMILY)?;
        let steps = REFIT + HORIZONS[HORIZONS.len() - 1];
        let (ahead, within, season) = match period {
            None => {
                let fit = ets.fit(series)?;
                (fit.predict(steps, None)?.point, fit.predict_in_sample(None)?.point, Vec::new())
            }
            Some(period) => {
                let fit = MSTLModel::new(vec![period], ets.into_trend_model()).fit(series)?;
                let season = fit.fit().seasonal().first().map_or_else(Vec::new, Clone::clone);
                (fit.predict(steps, None)?.point, fit.predict_in_sample(None)?.point, season)
            }
        };
        Ok(Self { ahead, gain: gain(series, &within, &season), lift: 0.0, age: 0 })
    }

    /// Takes the next value of the series; false when it is time for the next fit.
    pub fn push(&mut self, value: f64) -> bool {
        if let Some(expected) = self.ahead.get(self.age) {
            self.lift += self.gain * (value - expected - self.lift);
        }
        self.age += 1;
        self.age < REFIT
    }

    /// The highest of the next `horizon` steps.
    pub fn highest(&self, horizon: usize) -> Option<f64> {
        let highest = self.ahead.iter().skip(self.age).take(horizon).copied().reduce(f64::max);
        highest.map(|highest| highest + self.lift).filter(|highest| highest.is_finite())
    }
}

/// How much of an error the forecast of the next step took over, on average, besides the season.
fn gain(series: &[f64], within: &[f64], season: &[f32]) -> f64 {
    let level = |step: usize| within[step] - season.get(step).copied().map_or(0.0, f64::from);
    let (mut both, mut squares) = (0.0, 0.0);
    for step in 0..series.len().min(within.len()).saturating_sub(1) {
        let error = series[step] - within[step];
        let moved = level(step + 1) - level(step);
        if error.is_finite() && moved.is_finite() {
            both += moved * error;
            squares += error * error;
        }
    }
    if squares > 0.0 { (both / squares).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;

    /// The same noise each time, within half of one in both directions.
    fn noise(step: usize) -> f64 {
        (step as f64 * 0.754_877_666).fract() - 0.5
    }

    #[test]
    fn ets_finds_the_level_and_follows_it_between_fits() {
        let series: Vec<f64> = (0..600).map(|step| 3.0 + 0.2 * noise(step)).collect();
        let mut fit = Fitted::new(&series, None).unwrap();
        assert!((fit.highest(2).unwrap() - 3.0).abs() < 0.1, "{:?}", fit.highest(2));
        fit.gain = 0.5;
        for left in [0.5, 0.25, 0.125] {
            assert!(fit.push(4.0));
            assert!((fit.highest(2).unwrap() - (4.0 - left)).abs() < 0.1, "{:?}", fit.highest(2));
        }
    }

    #[test]
    fn the_gain_is_the_weight_of_exponential_smoothing() {
        let series: Vec<f64> = (0..100).map(|step| noise(step * step)).collect();
        let mut within = vec![0.2];
        for value in &series {
            let last = within[within.len() - 1];
            within.push(last + 0.3 * (value - last));
        }
        assert!((gain(&series, &within, &[]) - 0.3).abs() < 1e-12);
    }

    #[test]
    fn mstl_knows_the_season_and_ets_does_not() {
        let wave = |step: usize| (step as f64 * TAU / 96.0).sin();
        let series: Vec<f64> = (0..600).map(|step| 3.0 + wave(step) + 0.05 * noise(step)).collect();
        let fit = Fitted::new(&series, Some(96)).unwrap();
        for ahead in 0..REFIT {
            let off = fit.ahead[ahead] - 3.0 - wave(600 + ahead);
            assert!(off.abs() < 0.2, "{off} after {ahead}");
        }
        let without = Fitted::new(&series, None).unwrap();
        assert!((0..REFIT).any(|ahead| (without.ahead[ahead] - 3.0 - wave(600 + ahead)).abs() > 0.5));
    }

    #[test]
    fn a_fit_ends_after_an_hour_and_series_without_news_do_no_harm() {
        for value in [0.0, -2.7, 5.0] {
            // A constant may have no fit; it must not panic.
            let Ok(mut fit) = Fitted::new(&[value; REFIT], Some(60)) else { continue };
            assert!((1..REFIT).all(|_| fit.push(value)));
            assert!(!fit.push(value));
            assert!(fit.highest(HORIZONS[1]).is_none_or(f64::is_finite));
        }
        assert!(Fitted::new(&[1.0, 2.0], None).is_err());
        let restless: Vec<f64> = (0..2 * REFIT).map(|step| ((step * 7919) % 13) as f64).collect();
        let mut fit = Fitted::new(&restless, None).unwrap();
        assert!((1..REFIT).all(|_| fit.push(5.0)) && !fit.push(5.0));
    }
}
