//! AWARE's seven scenarios of instability: payloads that grow and loads that change while a tenant runs.
//!
//! The sizes are those of the paper. What they do to a request's demand follows from [`crate::input`]: the work of a
//! file grows with its bytes, of a table with its items, of a picture with its pixels, of a matrix with the cube of its
//! dimension. The paper prints 10^8 and 20^8 floating-point operations; the second is read as 20e8 here, twenty times
//! the first, since 256 times would leave the range of all the others.

use std::sync::Arc;

use meanfield_common::invalid::Invalid;

use crate::{
    cluster::TenantSpec,
    input::{Input, Sizes},
    workload::Workload,
};

/// Requests a day that divide the traces of the paper into a high and a low half.
pub const DAILY_SPLIT: f64 = 1e5;

/// How many times the usual load the two halves have; theirs is not printed, so this is our choice. The mean is 1.
const HIGH_AND_LOW: (f64, f64) = (1.6, 0.4);

/// What changes. The last two are the two directions of the seventh scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Instability {
    /// Files of [128, 256, 384] KB become [512, 768, 1024] KB.
    FileSize,
    /// A scanned table of 1024 items becomes one of 10240.
    TableSize,
    /// 1e8 floating-point operations become 20e8.
    FloatOperations,
    /// Pictures of 40 x 40 become 160 x 160.
    ImageSize,
    /// JSON of [250 B, 500 B, 1 KB] becomes [2, 3, 5] KB.
    TextSize,
    /// Matrices of dimension 50 become 150.
    MatrixSize,
    /// A high load becomes a low one.
    LoadFalls,
    /// A low load becomes a high one.
    LoadRises,
}

impl Instability {
    /// All of them, in the order of the paper.
    pub const ALL: [Self; 8] = [
        Self::FileSize,
        Self::TableSize,
        Self::FloatOperations,
        Self::ImageSize,
        Self::TextSize,
        Self::MatrixSize,
        Self::LoadFalls,
        Self::LoadRises,
    ];

    /// Its name in tables and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FileSize => "file-size",
            Self::TableSize => "table-size",
            Self::FloatOperations => "float-operations",
            Self::ImageSize => "image-size",
            Self::TextSize => "text-size",
            Self::MatrixSize => "matrix-size",
            Self::LoadFalls => "load-falls",
            Self::LoadRises => "load-rises",
        }
    }

    /// The input whose size changes, before and after; nothing when the load does.
    fn sizes(self) -> Option<(Input, Sizes<'static>, Sizes<'static>)> {
        let (input, before, after): (_, &[f64], &[f64]) = match self {
            Self::FileSize => (Input::File, &[128.0, 256.0, 384.0], &[512.0, 768.0, 1024.0]),
            Self::TableSize => (Input::Table, &[1024.0], &[10_240.0]),
            Self::FloatOperations => (Input::Operations, &[1e8], &[20e8]),
            Self::ImageSize => (Input::Image, &[40.0], &[160.0]),
            Self::TextSize => (Input::Text, &[250.0, 500.0, 1000.0], &[2000.0, 3000.0, 5000.0]),
            Self::MatrixSize => (Input::Matrix, &[50.0], &[150.0]),
            Self::LoadFalls | Self::LoadRises => return None,
        };
        Some((input, Sizes(before), Sizes(after)))
    }

    /// What requests need once it has happened; nothing when it does not concern them.
    #[must_use]
    pub fn after(self, workload: &Workload) -> Option<Workload> {
        let (input, before, after) = self.sizes()?;
        (workload.input == Some(input)).then(|| workload.resized(before, after))
    }

    /// Has it happen to a tenant from a step on. A load that falls has been high before, one that rises low.
    ///
    /// The objective stays: it is what was promised. Where it could not be kept any more, however many pods there are,
    /// take that of the changed workload.
    pub fn apply(self, spec: &mut TenantSpec, from: usize) -> Result<(), Invalid> {
        if self.sizes().is_some() {
            let after = self.after(&spec.workload).ok_or_else(|| {
                Invalid::new("instability", self.name(), format!("about anything that {} is sent", spec.workload.name))
            })?;
            spec.changes.retain(|(step, _)| *step < from);
            spec.changes.push((from, Arc::new(after)));
        } else {
            let (high, low) = HIGH_AND_LOW;
            let (before, after) = if self == Self::LoadFalls { (high, low) } else { (low, high) };
            let times = |step| if step < from { before } else { after };
            spec.arrivals = spec.arrivals.iter().enumerate().map(|(step, rate)| rate * times(step)).collect();
        }
        Ok(())
    }
}
