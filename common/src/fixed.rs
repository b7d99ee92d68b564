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

impl Fixed {
    /// The nearest fixed-point number. Magnitudes above [`LARGEST`] are cut to it and NaN becomes 0: the validated
    /// types in front never let either through, and a sum must stay sound whatever happens.
    #[must_use]
    pub fn nearest(value: f64) -> Self {
        // The cast of a float to an integer saturates, and turns NaN into 0.
        Self((value.clamp(-LARGEST, LARGEST) * SCALE).round_ties_even() as i64)
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
        Self((value.clamp(-1.0, 1.0) * SCALE).round_ties_even() as i32)
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
    raw as f64 / SCALE
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
    fn extremes_are_cut_and_never_wrap() {
        assert_eq!(Fixed::nearest(f64::INFINITY), Fixed::nearest(LARGEST));
        assert_eq!(Fixed::nearest(-1e300), Fixed::nearest(-LARGEST));
        assert_eq!(Fixed::nearest(f64::NAN), Fixed::default());
    }
}
