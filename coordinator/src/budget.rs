//! A pool's change budget at work: what was granted in each of the last seconds, in whole numbers.
//!
//! A minute that begins anywhere touches at most sixty-one whole seconds. Their sum never exceeds the limit, so no minute
//! does; a bucket that fills again while it is emptied would let through up to twice as much. Looking, granting and
//! moving on are O(1), since no more than those seconds are ever passed over, and nothing is allocated.

use meanfield_common::budget::Moving;

/// A minute that begins anywhere touches so many whole seconds.
const SECONDS: usize = 61;

/// What was granted of late.
#[derive(Debug)]
pub(crate) struct Window {
    limit: Option<Moving>,
    granted: [Moving; SECONDS],
    sum: Moving,
    /// The last second that was looked at.
    second: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self { limit: None, granted: [Moving::default(); SECONDS], sum: Moving::default(), second: 0 }
    }
}

impl Window {
    /// What may be granted in any minute from now on; none lifts the budget. What was granted still counts.
    pub(crate) fn set_limit(&mut self, limit: Option<Moving>) {
        self.limit = limit;
    }

    /// What may be granted in any minute.
    pub(crate) fn limit(&self) -> Option<Moving> {
        self.limit
    }

    /// Grants as much of `wanted` as is left; none where there is no budget. `now` is the clock's milliseconds.
    pub(crate) fn grant(&mut self, wanted: Moving, now: u64) -> Option<Moving> {
        let left = self.left(now)?;
        let given = wanted.min(left);
        let slot = &mut self.granted[self.second as usize % SECONDS];
        slot.millicores += given.millicores;
        slot.mebibytes += given.mebibytes;
        self.sum.millicores += given.millicores;
        self.sum.mebibytes += given.mebibytes;
        Some(given)
    }

    /// What is left to grant now; none where there is no budget.
    pub(crate) fn left(&mut self, now: u64) -> Option<Moving> {
        let limit = self.limit?;
        let second = now / 1000;
        let passed = second.saturating_sub(self.second).min(SECONDS as u64);
        for step in 0..passed {
            let slot = &mut self.granted[((self.second + 1 + step) % SECONDS as u64) as usize];
            self.sum.millicores -= slot.millicores;
            self.sum.mebibytes -= slot.mebibytes;
            *slot = Moving::default();
        }
        self.second = self.second.max(second);
        Some(Moving {
            millicores: limit.millicores.saturating_sub(self.sum.millicores),
            mebibytes: limit.mebibytes.saturating_sub(self.sum.mebibytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moving(millicores: u32) -> Moving {
        Moving { millicores, mebibytes: millicores / 2 }
    }

    #[test]
    fn without_a_limit_nothing_is_said_and_with_one_it_is_kept() {
        let mut window = Window::default();
        assert_eq!(window.grant(moving(5), 0), None);
        window.set_limit(Some(moving(10)));
        assert_eq!(window.grant(moving(8), 0), Some(moving(8)));
        assert_eq!(window.grant(moving(8), 59_999), Some(Moving { millicores: 2, mebibytes: 1 }));
        assert_eq!(window.grant(moving(8), 60_999), Some(moving(0)), "its last minute still touches the first second");
        assert_eq!(window.grant(moving(9), 61_000), Some(moving(8)));
        assert_eq!(window.grant(moving(9), u64::MAX), Some(moving(9)), "after a long silence all of it is there");
        window.set_limit(Some(moving(4)));
        assert_eq!(window.grant(moving(9), u64::MAX), Some(moving(0)), "a lower limit counts what was granted before");
        window.set_limit(None);
        assert_eq!(window.grant(moving(5), u64::MAX), None);
    }

    proptest! {
        /// In every minute, wherever it begins, no more than the limit is granted; and nothing is held back that the last
        /// sixty-one seconds leave room for.
        #[test]
        fn no_minute_exceeds_the_limit(
            limit in 0..1000_u32,
            asks in prop::collection::vec((0..20_000_u64, 0..800_u32), 1..200),
        ) {
            let mut window = Window::default();
            window.set_limit(Some(moving(limit)));
            let (mut now, mut given) = (0, Vec::new());
            for (wait, wanted) in asks {
                now += wait;
                let granted = window.grant(moving(wanted), now).unwrap();
                prop_assert!(granted.fits(&moving(wanted)));
                let recent: u32 = given.iter().filter(|(at, _)| now / 1000 - at / 1000 <= 60).map(|(_, part)| part).sum();
                prop_assert_eq!(granted.millicores, wanted.min(limit - recent));
                given.push((now, granted.millicores));
            }
            for (start, _) in &given {
                let minute = given.iter().filter(|(at, _)| (*start..start + 60_000).contains(at));
                prop_assert!(minute.map(|(_, part)| part).sum::<u32>() <= limit);
            }
        }
    }
}
