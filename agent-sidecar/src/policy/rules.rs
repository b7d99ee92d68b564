//! HPA and VPA, alone or together, as clusters run them.

use meanfield_common::{
    invalid::Invalid,
    resources::{Bytes, Resources, Scale},
};

use super::{
    Decision, Policy, View,
    hpa::{Follow, Horizontal},
    vpa::{Controls, Vertical},
};

/// Replicas by HPA, limits by VPA; each may be missing.
#[derive(Debug, Clone)]
pub struct Rules {
    name: &'static str,
    horizontal: Option<Horizontal>,
    vertical: Option<Vertical>,
}

impl Rules {
    /// Replicas by HPA, memory by VPA: how people combine them.
    pub fn hpa_vpa(follow: Follow) -> Result<Self, Invalid> {
        let name = match follow {
            Follow::Cpu(_) => "hpa-vpa",
            Follow::Concurrency(_) => "hpa-concurrency-vpa",
            Follow::Rate(_) => "hpa-rate-vpa",
        };
        Self::new(name, Some(follow), Some(Controls::Memory))
    }

    /// Both on CPU: how they should not be combined, since each chases the other.
    pub fn fighting(target: f64) -> Result<Self, Invalid> {
        Self::new("hpa-vpa-both-cpu", Some(Follow::Cpu(target)), Some(Controls::Both))
    }

    /// Limits only.
    pub fn vpa() -> Result<Self, Invalid> {
        Self::new("vpa", None, Some(Controls::Both))
    }

    /// Nothing moves.
    pub fn still() -> Result<Self, Invalid> {
        Self::new("static", None, None)
    }

    /// The same, with a floor for VPA's memory.
    #[must_use]
    pub fn with_memory_floor(self, floor: Bytes) -> Self {
        Self { vertical: self.vertical.map(|vertical| vertical.with_floor(floor)), ..self }
    }

    fn new(name: &'static str, follow: Option<Follow>, controls: Option<Controls>) -> Result<Self, Invalid> {
        let horizontal = follow.map(Horizontal::new).transpose()?;
        Ok(Self { name, horizontal, vertical: controls.map(Vertical::new).transpose()? })
    }
}

impl Policy for Rules {
    fn name(&self) -> &'static str {
        self.name
    }

    fn decide(&mut self, view: &View<'_>) -> Result<Decision, crate::Error> {
        let (seen, bounds) = (view.seen, &view.target.bounds);
        let replicas = match &mut self.horizontal {
            Some(hpa) => hpa.replicas(seen, bounds)?,
            None => seen.scale.replicas,
        };
        let limit: Resources = match &mut self.vertical {
            Some(vpa) => vpa.limit(seen, bounds),
            None => seen.scale.limit,
        };
        Ok(Decision::wish(bounds.clamp(&Scale { replicas, limit })))
    }

    fn reset(&mut self) {
        if let Some(hpa) = &mut self.horizontal {
            hpa.reset();
        }
        if let Some(vpa) = &mut self.vertical {
            vpa.reset();
        }
    }
}
