//! Logarithm and powers, to the last bit as Go computes them.
//!
//! The autoscalers round down after these functions, so an answer that differs in its last bit can decide between two
//! millicores. A platform's own `ln` and `exp2` differ in exactly that bit, and from platform to platform.
//!
//! The polynomials are those of FreeBSD's `e_log.c` and `e_exp.c`:
//!
//! > Copyright (C) 1993 by Sun Microsystems, Inc. All rights reserved. Developed at SunPro, a Sun Microsystems, Inc.
//! > business. Permission to use, copy, modify, and distribute this software is freely granted, provided that this
//! > notice is preserved.

const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// A positive normal number as a fraction within [0.5, 1) and a power of two.
fn split(x: f64) -> (f64, i32) {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1022;
    (f64::from_bits((bits & MANTISSA) | (1022 << 52)), exponent)
}

/// `fraction * 2^exponent`.
pub(crate) fn scale(fraction: f64, exponent: i32) -> f64 {
    let power = |exponent: i32| f64::from_bits(((exponent.clamp(-1022, 1023) + 1023) as u64) << 52);
    // Two steps reach every finite number; a third settles what lies beyond as zero or infinity.
    let first = exponent.clamp(-1022, 1023);
    let second = exponent.saturating_sub(first).clamp(-1022, 1023);
    let third = exponent.saturating_sub(first).saturating_sub(second);
    fraction * power(first) * power(second) * power(third)
}

/// The natural logarithm of a positive normal number.
pub(crate) fn log(x: f64) -> f64 {
    const L: [f64; 7] = [
        6.666_666_666_666_735e-1,
        3.999_999_999_940_942e-1,
        2.857_142_874_366_239e-1,
        2.222_219_843_214_978_4e-1,
        1.818_357_216_161_805e-1,
        1.531_383_769_920_937_3e-1,
        1.479_819_860_511_658_6e-1,
    ];
    let (mut fraction, mut exponent) = split(x);
    if fraction < std::f64::consts::FRAC_1_SQRT_2 {
        fraction *= 2.0;
        exponent -= 1;
    }
    let f = fraction - 1.0;
    let k = f64::from(exponent);
    let s = f / (2.0 + f);
    let s2 = s * s;
    let s4 = s2 * s2;
    let odd = s2 * (L[0] + s4 * (L[2] + s4 * (L[4] + s4 * L[6])));
    let even = s4 * (L[1] + s4 * (L[3] + s4 * L[5]));
    let rest = odd + even;
    let half_square = 0.5 * f * f;
    k * LN2_HIGH - ((half_square - (s * (half_square + rest) + k * LN2_LOW)) - f)
}

/// Two to the power of `x`.
pub(crate) fn exp2(x: f64) -> f64 {
    const P: [f64; 5] = [
        1.666_666_666_666_666_6e-1,
        -2.777_777_777_701_559_3e-3,
        6.613_756_321_437_934e-5,
        -1.653_390_220_546_525_2e-6,
        4.138_136_797_057_238_5e-8,
    ];
    if x.is_nan() || x > 1_023.999_999_999_999_9 {
        return if x.is_nan() { x } else { f64::INFINITY };
    }
    if x < -1074.0 {
        return 0.0;
    }
    let k = (x + 0.5_f64.copysign(x)) as i32;
    let t = x - f64::from(k);
    let high = t * LN2_HIGH;
    let low = -t * LN2_LOW;
    let r = high - low;
    let r2 = r * r;
    let c = r - r2 * (P[0] + r2 * (P[1] + r2 * (P[2] + r2 * (P[3] + r2 * P[4]))));
    let y = 1.0 - ((low - (r * c) / (2.0 - c)) - high);
    scale(y, k)
}

/// A positive number, or infinity, to a whole power.
pub(crate) fn pow(x: f64, power: i32) -> f64 {
    if power == 0 || x == 1.0 {
        return 1.0;
    }
    if power == 1 {
        return x;
    }
    if x.is_infinite() {
        return if power < 0 { 0.0 } else { x };
    }
    let (mut square, mut square_exponent) = split(x);
    let (mut fraction, mut exponent) = (1.0, 0_i32);
    let mut left = power.unsigned_abs();
    while left != 0 {
        // Far beyond what a float holds: stop before the exponent overflows.
        if square_exponent.abs() > 1 << 12 {
            exponent += square_exponent;
            break;
        }
        if left & 1 == 1 {
            fraction *= square;
            exponent += square_exponent;
        }
        square *= square;
        square_exponent *= 2;
        if square < 0.5 {
            square += square;
            square_exponent -= 1;
        }
        left >>= 1;
    }
    if power < 0 { scale(1.0 / fraction, -exponent) } else { scale(fraction, exponent) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn scaling_reaches_every_power_of_two() {
        assert_eq!(scale(1.5, 10), 1536.0);
        assert_eq!(scale(1.0, -1074), f64::from_bits(1));
        assert_eq!(scale(0.5, 1024), 2.0_f64.powi(1023));
        assert_eq!(scale(1.0, i32::MAX), f64::INFINITY);
        assert_eq!(scale(1.0, i32::MIN), 0.0);
    }

    #[test]
    fn the_ends_are_zero_and_infinity() {
        assert_eq!(exp2(f64::INFINITY), f64::INFINITY);
        assert_eq!(exp2(f64::NEG_INFINITY), 0.0);
        assert_eq!(exp2(0.0), 1.0);
        assert_eq!(pow(f64::INFINITY, -2), 0.0);
        assert_eq!(pow(1e300, 1 << 20), f64::INFINITY);
        assert_eq!(pow(1e-300, 1 << 20), 0.0);
    }

    proptest! {
        #[test]
        fn they_are_what_they_say(x in 1e-3..1e9_f64, power in -20..20_i32, exponent in -200.0..200.0_f64) {
            let near = |ours: f64, theirs: f64| (ours - theirs).abs() <= 1e-13 * theirs.abs().max(1e-300);
            prop_assert!((log(x) - x.ln()).abs() <= 1e-14 * x.ln().abs().max(1.0));
            prop_assert!(near(exp2(exponent), exponent.exp2()));
            prop_assert!(near(pow(x, power), x.powi(power)));
        }
    }
}
