//! Exact fixed-point numbers.
//!
//! Floating-point sums depend on the order of their terms and drift when terms are added and taken away for months.
//! Integers do neither, so everything that is summed over agents is converted once, at the edge, to a multiple of
//! 2^-30.

/// A number as a whole multiple of 2^-30.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Fixed(i64);

/// The largest magnitude that [`Fixed`] takes. Sums over 2^32 agents then fit an `i128`; so do sums of squares of the
/// mean field's fields, which are within [-2, 2] (rewards, which may be large, are never squared).
pub const LARGEST: f64 = 1_048_576.0;

const SCALE: f64 = (1_u64 << 30) as f64;

/// The nearest whole number, ties to even, of anything within 2^51: beyond 2^52 floats have no bits below the point, so
/// adding so much rounds. Two additions that vectorise, where [`f64::round_ties_even`] is a call on processors without
/// an instruction for it.
fn whole_nearest(value: f64) -> f64 {
    const SHIFT: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52
    (value + SHIFT) - SHIFT
}

impl Fixed {
    /// The nearest fixed-point number. Magnitudes above [`LARGEST`] are cut to it and NaN becomes 0: the validated
    /// types in front never let either through, and a sum must stay sound whatever happens.
    #[must_use]
    pub fn nearest(value: f64) -> Self {
        // The cast of a float to an integer saturates, and turns NaN into 0.
        Self(whole_nearest(value.clamp(-LARGEST, LARGEST) * SCALE) as i64)
    }

    /// The raw integer, in units of 2^-30.
    #[must_use]
    pub fn raw(self) -> i64 {
        self.0
    }
}

/// A number within [-1, 1] as a whole multiple of 2^-30, in half the space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Unit(i32);

impl Unit {
    /// The nearest one, the same number as [`Fixed::nearest`] gives; what is outside is cut, and NaN becomes 0.
    #[must_use]
    pub fn nearest(value: f64) -> Self {
        Self(whole_nearest(value.clamp(-1.0, 1.0) * SCALE) as i32)
    }

    /// The raw integer, in units of 2^-30.
    #[must_use]
    pub fn raw(self) -> i64 {
        self.0.into()
    }
}

/// A whole number as a raw fixed-point integer.
#[must_use]
pub fn whole(number: i8) -> i64 {
    i64::from(number) << 30
}

/// A sum of raw fixed-point integers as a float.
#[must_use]
pub fn sum_to_f64(raw: i128) -> f64 {
    // Most fit 64 bits, for which processors have an instruction; both ways round to the nearest.
    i64::try_from(raw).map_or_else(|_| raw as f64, |raw| raw as f64) / SCALE
}

/// The square root of a sum of products of raw fixed-point integers, as a float.
#[must_use]
pub fn sqrt_of_products(raw: i128) -> f64 {
    (raw.max(0) as f64).sqrt() / SCALE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_thirty_bits_below_the_point() {
        for value in [0.0, 1.0, -1.0, 0.5, 0.123_456_789, -0.999_999_9, 1000.25] {
            let back = sum_to_f64(Fixed::nearest(value).raw().into());
            assert!((back - value).abs() <= 0.5 / SCALE, "{value} came back as {back}");
        }
    }

    #[test]
    fn half_the_space_holds_the_same_numbers() {
        for value in [0.0, 1.0, -1.0, 0.5, 0.123_456_789, -0.999_999_9, 1e-10] {
            assert_eq!(Unit::nearest(value).raw(), Fixed::nearest(value).raw(), "{value}");
        }
        assert_eq!((Unit::nearest(7.0), Unit::nearest(f64::NAN)), (Unit::nearest(1.0), Unit::default()));
        for number in -2..=2 {
            assert_eq!(whole(number), Fixed::nearest(number.into()).raw());
        }
    }

    #[test]
    fn rounds_as_the_standard_library_does() {
        let halves = (-9..=9).map(|number| f64::from(number) / 2.0);
        let near = [0.49999999999999994, 1e-300, -0.0, 1_125_899_906_842_623.5, -1_125_899_906_842_624.0, 123_456.789];
        for value in halves.chain(near) {
            assert_eq!(whole_nearest(value), value.round_ties_even(), "{value}");
        }
    }

    #[test]
    fn sums_of_any_size_become_the_nearest_float() {
        for raw in [0, 1, -1, i64::MAX.into(), i64::MIN.into(), i128::from(i64::MAX) + 1, i128::MIN, (1 << 53) + 1] {
            assert_eq!(sum_to_f64(raw), raw as f64 / SCALE, "{raw}");
        }
    }

    #[test]
    fn extremes_are_cut_and_never_wrap() {
        assert_eq!(Fixed::nearest(f64::INFINITY), Fixed::nearest(LARGEST));
        assert_eq!(Fixed::nearest(-1e300), Fixed::nearest(-LARGEST));
        assert_eq!(Fixed::nearest(f64::NAN), Fixed::default());
    }
}
