//! The inner loops, shaped so that the compiler turns them into vector code without `unsafe`.
//!
//! A weight matrix is a run of equally long rows, and three operations on rows carry both passes of a network:
//! [`combine`] adds rows weighted by coefficients, [`dots`] multiplies every row with a vector, and [`outer`] adds a
//! vector to every row, weighted. Which of them is the forward pass depends on whether a row belongs to an input or to
//! an output; see [`crate::network`]. All of them keep a fixed-size tile in registers and read the matrix once per
//! sample; the order of additions is fixed, so results do not depend on the batch around a sample.
//!
//! Each runs on the widest registers that the processor has ([`wide`]). Nothing is fused and nothing is reordered by that, so
//! results do not depend on the processor either.

use std::hint::black_box;

/// Runs `work`, which must be inlined, compiled for AVX2 where the processor has it.
#[inline(always)]
pub(crate) fn wide<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}

/// Columns held in registers at once: four or eight registers, enough to hide the latency of an addition.
const TILE: usize = 32;
/// Columns of the second tier, for widths that are no multiple of [`TILE`].
const SMALL: usize = 8;

/// For each sample: `out += sum over rows r of coefficients[r] * rows[r]`.
pub(crate) fn combine(coefficients: &[f32], rows: &[f32], out: &mut [f32], width: usize) {
    wide(|| combine_here(coefficients, rows, out, width));
}

#[inline(always)]
fn combine_here(coefficients: &[f32], rows: &[f32], out: &mut [f32], width: usize) {
    debug_assert_eq!(rows.len() % width, 0);
    let count = rows.len() / width;
    debug_assert_eq!(coefficients.len() / count, out.len() / width);
    for (coefficients, out) in coefficients.chunks_exact(count).zip(out.chunks_exact_mut(width)) {
        let mut start = 0;
        let (tiles, rest) = out.as_chunks_mut::<TILE>();
        for tile in tiles {
            combine_tile(coefficients, rows, tile, width, start);
            start += TILE;
        }
        let (tiles, rest) = rest.as_chunks_mut::<SMALL>();
        for tile in tiles {
            combine_tile(coefficients, rows, tile, width, start);
            start += SMALL;
        }
        if !rest.is_empty() {
            for (row, &coefficient) in rows.chunks_exact(width).zip(coefficients) {
                for (out, &weight) in rest.iter_mut().zip(&row[start..]) {
                    *out += coefficient * weight;
                }
            }
        }
    }
}

/// Whether a row reaches beyond the tile is the same for all rows, so the compiler asks once, outside the loop.
#[inline(always)]
fn combine_tile<const N: usize>(coefficients: &[f32], rows: &[f32], tile: &mut [f32; N], width: usize, start: usize) {
    let mut sums = *tile;
    for (row, &coefficient) in rows.chunks_exact(width).zip(coefficients) {
        if let Some(row) = row.get(start..).and_then(|row| row.first_chunk::<N>()) {
            for (sum, &weight) in sums.iter_mut().zip(row) {
                *sum += coefficient * weight;
            }
        }
    }
    *tile = sums;
}

/// For each sample: `out[r] += rows[r] . vector`.
pub(crate) fn dots(rows: &[f32], vectors: &[f32], out: &mut [f32], width: usize) {
    wide(|| dots_here(rows, vectors, out, width));
}

#[inline(always)]
fn dots_here(rows: &[f32], vectors: &[f32], out: &mut [f32], width: usize) {
    debug_assert_eq!(rows.len() % width, 0);
    let count = rows.len() / width;
    debug_assert_eq!(out.len() / count, vectors.len() / width);
    for (vector, out) in vectors.chunks_exact(width).zip(out.chunks_exact_mut(count)) {
        let (quads, rest) = out.as_chunks_mut::<4>();
        let blocks = rows.chunks_exact(4 * width);
        let single = blocks.remainder();
        for (quad, block) in quads.iter_mut().zip(blocks) {
            let (first, second) = block.split_at(2 * width);
            let (a, b) = first.split_at(width);
            let (c, d) = second.split_at(width);
            let sums = dot_four([a, b, c, d], vector);
            for (out, sum) in quad.iter_mut().zip(sums) {
                *out += sum;
            }
        }
        for (out, row) in rest.iter_mut().zip(single.chunks_exact(width)) {
            *out += dot(row, vector);
        }
    }
}

/// Four rows against one vector: the vector is loaded once, and four independent sums keep the adders busy.
#[inline(always)]
fn dot_four(rows: [&[f32]; 4], vector: &[f32]) -> [f32; 4] {
    let [(a, a_rest), (b, b_rest), (c, c_rest), (d, d_rest)] = rows.map(|row| row.as_chunks::<SMALL>());
    let (v, v_rest) = vector.as_chunks::<SMALL>();
    let mut lanes = [[0.0f32; SMALL]; 4];
    for ((((a, b), c), d), v) in a.iter().zip(b).zip(c).zip(d).zip(v) {
        for (lanes, row) in lanes.iter_mut().zip([a, b, c, d]) {
            for ((lane, &weight), &value) in lanes.iter_mut().zip(row).zip(v) {
                *lane += weight * value;
            }
        }
    }
    // A wall between the products and the sums across lanes: without it the compiler puts one lane of each row into a
    // register, as the sums want it, and shuffles in the inner loop. That takes three times as long.
    let lanes = black_box(lanes);
    let mut sums = lanes.map(fold);
    if !v_rest.is_empty() {
        add_rests(&mut sums, [a_rest, b_rest, c_rest, d_rest], v_rest);
    }
    sums
}

/// What is left of four rows. Out of line, like [`dot`]: inlined, their set-up would run before every call of [`dots`],
/// even for the usual widths, which leave nothing.
#[cold]
#[inline(never)]
fn add_rests(sums: &mut [f32; 4], rows: [&[f32]; 4], vector: &[f32]) {
    for (sum, row) in sums.iter_mut().zip(rows) {
        for (&weight, &value) in row.iter().zip(vector) {
            *sum += weight * value;
        }
    }
}

#[inline(never)]
fn dot(row: &[f32], vector: &[f32]) -> f32 {
    let (row, row_rest) = row.as_chunks::<16>();
    let (vector, vector_rest) = vector.as_chunks::<16>();
    let mut lanes = [0.0f32; 16];
    for (row, vector) in row.iter().zip(vector) {
        for k in 0..16 {
            lanes[k] += row[k] * vector[k];
        }
    }
    let mut halves = [0.0f32; SMALL];
    for k in 0..SMALL {
        halves[k] = lanes[k] + lanes[k + SMALL];
    }
    let rest: f32 = row_rest.iter().zip(vector_rest).map(|(&weight, &value)| weight * value).sum();
    fold(halves) + rest
}

#[inline(always)]
fn fold(lanes: [f32; SMALL]) -> f32 {
    let quarter = [lanes[0] + lanes[4], lanes[1] + lanes[5], lanes[2] + lanes[6], lanes[3] + lanes[7]];
    (quarter[0] + quarter[2]) + (quarter[1] + quarter[3])
}

/// `rows[r] += sum over samples of coefficients[r] * vector`: the gradient of a weight matrix.
pub(crate) fn outer(coefficients: &[f32], vectors: &[f32], rows: &mut [f32], width: usize) {
    wide(|| outer_here(coefficients, vectors, rows, width));
}

#[inline(always)]
fn outer_here(coefficients: &[f32], vectors: &[f32], rows: &mut [f32], width: usize) {
    debug_assert_eq!(rows.len() % width, 0);
    let count = rows.len() / width;
    debug_assert_eq!(coefficients.len() / count, vectors.len() / width);
    for (index, row) in rows.chunks_exact_mut(width).enumerate() {
        let mut start = 0;
        let (tiles, rest) = row.as_chunks_mut::<TILE>();
        for tile in tiles {
            outer_tile((coefficients, count, index), (vectors, width, start), tile);
            start += TILE;
        }
        let (tiles, rest) = rest.as_chunks_mut::<SMALL>();
        for tile in tiles {
            outer_tile((coefficients, count, index), (vectors, width, start), tile);
            start += SMALL;
        }
        if !rest.is_empty() {
            for (coefficients, vector) in coefficients.chunks_exact(count).zip(vectors.chunks_exact(width)) {
                let coefficient = coefficients[index];
                for (out, &value) in rest.iter_mut().zip(&vector[start..]) {
                    *out += coefficient * value;
                }
            }
        }
    }
}

/// The part of one row: its coefficient is at `index` of every `count` coefficients, its columns start at `start` of every
/// `width` values.
#[inline(always)]
fn outer_tile<const N: usize>(
    (coefficients, count, index): (&[f32], usize, usize),
    (vectors, width, start): (&[f32], usize, usize),
    tile: &mut [f32; N],
) {
    let mut sums = *tile;
    for (vector, coefficients) in vectors.chunks_exact(width).zip(coefficients.chunks_exact(count)) {
        let columns = vector.get(start..).and_then(|vector| vector.first_chunk::<N>());
        if let (Some(columns), Some(&coefficient)) = (columns, coefficients.get(index)) {
            for (sum, &value) in sums.iter_mut().zip(columns) {
                *sum += coefficient * value;
            }
        }
    }
    *tile = sums;
}

/// Adds every row of `rows` to `out`.
pub(crate) fn add_rows(rows: &[f32], out: &mut [f32]) {
    wide(|| add_rows_here(rows, out));
}

#[inline(always)]
fn add_rows_here(rows: &[f32], out: &mut [f32]) {
    for row in rows.chunks_exact(out.len()) {
        for (out, &value) in out.iter_mut().zip(row) {
            *out += value;
        }
    }
}

/// Sum of squares; in lanes, because one running sum would wait for every addition.
pub(crate) fn sum_of_squares(values: &[f32]) -> f64 {
    wide(|| sum_of_squares_here(values))
}

#[inline(always)]
fn sum_of_squares_here(values: &[f32]) -> f64 {
    let (chunks, rest) = values.as_chunks::<16>();
    let mut lanes = [0.0f32; 16];
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane += value * value;
        }
    }
    lanes.iter().map(|&lane| f64::from(lane)).sum::<f64>()
        + rest.iter().map(|&value| f64::from(value * value)).sum::<f64>()
}

/// Hyperbolic tangent in place.
///
/// The rational approximation that Eigen uses for single precision: odd degree 13 over even degree 6, within a few
/// units in the last place. It has no branch and no table, so four values go through at once. NaN stays NaN.
pub(crate) fn tanh(values: &mut [f32]) {
    wide(|| tanh_here(values));
}

#[inline(always)]
fn tanh_here(values: &mut [f32]) {
    for value in values {
        *value = tanh_one(*value);
    }
}

#[inline(always)]
fn tanh_one(x: f32) -> f32 {
    // Beyond this the result rounds to one; the polynomials would leave their range.
    const BOUND: f32 = 7.998_811_7;
    // Comparisons instead of min and max: those would turn NaN into the bound and hide it.
    let x = if x > BOUND { BOUND } else { x };
    let x = if x < -BOUND { -BOUND } else { x };
    let s = x * x;
    let p = -2.760_768_5e-16 * s + 2.000_188e-13;
    let p = p * s - 8.604_672e-11;
    let p = p * s + 5.122_297e-8;
    let p = p * s + 1.485_722_4e-5;
    let p = p * s + 6.372_619_5e-4;
    let p = p * s + 4.893_524_6e-3;
    let q = 1.198_258_4e-6 * s + 1.185_347_1e-4;
    let q = q * s + 2.268_434_6e-3;
    let q = q * s + 4.893_525e-3;
    x * p / q
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tanh_is_accurate_everywhere() {
        let grid = (-2_000_000..=2_000_000).map(|k| k as f32 * 1e-5);
        let extremes = [0.0, -0.0, 1e-30, -1e-30, f32::MIN_POSITIVE, 1e-45, 50.0, -50.0, f32::MAX, f32::MIN];
        for x in grid.chain(extremes).chain([f32::INFINITY, f32::NEG_INFINITY]) {
            let mut y = [x];
            tanh(&mut y);
            let error = (f64::from(y[0]) - f64::from(x).tanh()).abs();
            assert!(error <= 1e-6, "tanh({x}) = {}, off by {error:e}", y[0]);
            assert!(y[0].abs() <= 1.0, "tanh({x}) = {} leaves the range", y[0]);
        }
        let mut y = [f32::NAN];
        tanh(&mut y);
        assert!(y[0].is_nan());
    }

    proptest! {
        /// All widths, so that every tile size and every remainder occurs.
        #[test]
        fn kernels_match_plain_loops(width in 1usize..80, count in 1usize..11, batch in 1usize..4, seed: u32) {
            let mut state = seed | 1;
            let mut draw = |n: usize| -> Vec<f32> {
                let mut next = || {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    f32::from((state >> 16) as u16) / 32768.0 - 1.0
                };
                (0..n).map(|_| next()).collect()
            };
            let (rows, coefficients, vectors) = (draw(count * width), draw(batch * count), draw(batch * width));
            let mut combined = vec![1.0; batch * width];
            combine(&coefficients, &rows, &mut combined, width);
            let mut dotted = vec![1.0; batch * count];
            dots(&rows, &vectors, &mut dotted, width);
            let mut outers = vec![1.0; count * width];
            outer(&coefficients, &vectors, &mut outers, width);
            let (mut plain_combined, mut plain_dotted, mut plain_outers) =
                (vec![1.0; batch * width], vec![1.0; batch * count], vec![1.0; count * width]);
            combine_here(&coefficients, &rows, &mut plain_combined, width);
            dots_here(&rows, &vectors, &mut plain_dotted, width);
            outer_here(&coefficients, &vectors, &mut plain_outers, width);
            // Bit for bit: a wider processor must not change what a seed gives.
            prop_assert_eq!(&combined, &plain_combined);
            prop_assert_eq!(&dotted, &plain_dotted);
            prop_assert_eq!(&outers, &plain_outers);
            prop_assert_eq!(sum_of_squares(&rows).to_bits(), sum_of_squares_here(&rows).to_bits());
            let (mut wide, mut plain) = (rows.clone(), rows.clone());
            tanh(&mut wide);
            tanh_here(&mut plain);
            prop_assert_eq!(wide, plain);
            let close = |a: f32, b: f32| (a - b).abs() < 1e-4;
            for b in 0..batch {
                for w in 0..width {
                    let sum: f32 = (0..count).map(|r| coefficients[b * count + r] * rows[r * width + w]).sum();
                    prop_assert!(close(combined[b * width + w], 1.0 + sum));
                }
                for r in 0..count {
                    let sum: f32 = (0..width).map(|w| rows[r * width + w] * vectors[b * width + w]).sum();
                    prop_assert!(close(dotted[b * count + r], 1.0 + sum));
                }
            }
            for r in 0..count {
                for w in 0..width {
                    let sum: f32 = (0..batch).map(|b| coefficients[b * count + r] * vectors[b * width + w]).sum();
                    prop_assert!(close(outers[r * width + w], 1.0 + sum));
                }
            }
        }
    }
}
