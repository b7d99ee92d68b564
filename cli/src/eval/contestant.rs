//! Who takes part: each policy with its setting, the same for all functions or one for each.

use meanfield_agent::{
    policy::{
        Policy,
        aimd::Aimd,
        ensure::Ensure,
        forecast::{Care, Forecast},
        hpa::Follow,
        kpa::Kpa,
        outlook::{Known, PeakHold},
        plan::{self, Plan},
        planned::Planned,
        ppo::Ppo,
        reactive::Reactive,
        residual::Residual,
        rules::Rules,
    },
    yardstick,
};
use meanfield_common::{invalid::Invalid, resources::Bytes};
use meanfield_simulator::{
    cluster::{Spec, TenantSpec},
    workload::functions,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::{corrections, networks};
use meanfield_learner::forecast::Network;

/// A kind of policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Static,
    Vpa,
    HpaCpu,
    HpaConcurrency,
    HpaRate,
    HpaVpaBothCpu,
    Kpa,
    Aimd,
    Ensure,
    EnsureUtil,
    Reactive,
    Plan,
    PlanForecast,
    PlanPpo,
    PlanPpoUngated,
    PlanForecastUnseen,
    PlanForecastRaw,
    PlanForecastRecalibrated,
    PlanKnown1,
    PlanKnown2,
    PlanKnown4,
    BestStatic,
    Clairvoyant,
}

impl Kind {
    pub const ALL: [Self; 13] = [
        Self::Static,
        Self::Vpa,
        Self::HpaCpu,
        Self::HpaConcurrency,
        Self::HpaRate,
        Self::HpaVpaBothCpu,
        Self::Kpa,
        Self::Aimd,
        Self::Ensure,
        Self::EnsureUtil,
        Self::Reactive,
        Self::BestStatic,
        Self::Clairvoyant,
    ];

    pub fn label(self) -> &'static str {
        match self {
            Self::Static => "static, as started",
            Self::Vpa => "VPA",
            Self::HpaCpu => "HPA on CPU + VPA",
            Self::HpaConcurrency => "HPA on concurrency + VPA",
            Self::HpaRate => "HPA on request rate + VPA",
            Self::HpaVpaBothCpu => "HPA and VPA both on CPU",
            Self::Kpa => "KPA",
            Self::Aimd => "AIMD",
            Self::Ensure => "ENSURE",
            Self::EnsureUtil => "ENSURE-Util",
            Self::Reactive => "reactive queue model",
            Self::Plan => "queue model",
            Self::PlanForecast => "queue model + forecast",
            Self::PlanPpo => "queue model + forecast + PPO, gated",
            Self::PlanPpoUngated => "queue model + forecast + PPO, ungated",
            Self::PlanForecastUnseen => "+ forecast that never saw Azure",
            Self::PlanForecastRaw => "+ the same, neither corrected nor tuned",
            Self::PlanForecastRecalibrated => "+ the same, corrected but not tuned",
            Self::PlanKnown1 => "queue model, next step known",
            Self::PlanKnown2 => "queue model, 2 steps known",
            Self::PlanKnown4 => "queue model, 4 steps known",
            Self::BestStatic => "best static (knows the load)",
            Self::Clairvoyant => "clairvoyant (knows the load)",
        }
    }

    /// Whether its one setting is the price of a miss.
    pub fn plans(self) -> bool {
        (Self::Plan..=Self::PlanKnown4).contains(&self)
    }

    /// The setting that comes with it, and those that tuning tries; none where there is nothing to set.
    ///
    /// Plans: what a window that misses its objective costs, in cores; [`super::layers::PRICES`] is the range.
    /// HPA on CPU: share of the request, 80 % being Kubernetes' own default. On concurrency and KPA: requests in flight
    /// per pod, Knative's default being 100. AIMD: below which share of the objective it shrinks. On the rate: share of what a pod of the starting size can do at most.
    pub fn settings(self) -> Option<(f64, &'static [f64])> {
        const SHARES: [f64; 10] = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25];
        const IN_FLIGHT: [f64; 10] = [0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 16.0, 100.0];
        const SLACKS: [f64; 5] = [0.2, 0.3, 0.4, 0.55, 0.7];
        match self {
            Self::HpaCpu | Self::HpaVpaBothCpu => Some((0.8, &SHARES)),
            Self::HpaConcurrency => Some((16.0, &IN_FLIGHT)),
            Self::HpaRate => Some((0.5, &SHARES[..7])),
            Self::Kpa => Some((100.0, &IN_FLIGHT)),
            Self::Aimd => Some((0.7, &SLACKS)),
            _ if self.plans() => Some((plan::Options::default().price, &[])),
            _ => None,
        }
    }

    /// All settings that tuning tries.
    pub fn grid(self) -> Vec<Setting> {
        let targets = match (self, self.settings()) {
            (_, Some((_, grid))) => grid,
            (Self::Vpa | Self::Ensure | Self::EnsureUtil, None) => &[0.0],
            _ => &[],
        };
        let roomy: &[bool] = if self == Self::Aimd { &[false] } else { &[false, true] };
        targets.iter().flat_map(|&target| roomy.iter().map(move |&roomy| Setting { target, roomy })).collect()
    }

    /// The policy of one tenant.
    pub fn policy(self, setting: Setting, tenant: &TenantSpec, cluster: &Spec) -> Result<Box<dyn Policy>, Invalid> {
        self.policy_on(1, setting, tenant, cluster)
    }

    /// The policy of one tenant on a day, by its seed: whoever learns is trained anew for each of some days.
    pub fn policy_on(
        self,
        day: u64,
        setting: Setting,
        tenant: &TenantSpec,
        cluster: &Spec,
    ) -> Result<Box<dyn Policy>, Invalid> {
        let Setting { target: setting, roomy } = setting;
        let pod_rate = tenant.scale.limit.cpu.cores() / tenant.workload.cpu_seconds();
        let floor = if roomy { tenant.workload.full_memory() } else { Bytes(0) };
        let price = plan::Options { price: setting };
        let known = |steps: usize| -> Result<Box<dyn Policy>, Invalid> {
            Ok(Box::new(Plan::new(price, Known::new(tenant.arrivals.clone(), steps))?))
        };
        let forecast = |network: Arc<Network>, care: Care| -> Result<Box<dyn Policy>, Invalid> {
            Ok(Box::new(Plan::new(price, Forecast::new(network, care))?))
        };
        let rules = |rules: Rules| Box::new(rules.with_memory_floor(floor));
        Ok(match self {
            Self::Static => Box::new(Rules::still()?),
            Self::Vpa => rules(Rules::vpa()?),
            Self::HpaCpu => rules(Rules::hpa_vpa(Follow::Cpu(setting))?),
            Self::HpaConcurrency => rules(Rules::hpa_vpa(Follow::Concurrency(setting))?),
            Self::HpaRate => rules(Rules::hpa_vpa(Follow::Rate(setting * pod_rate))?),
            Self::HpaVpaBothCpu => rules(Rules::fighting(setting)?),
            Self::Kpa => Box::new(Kpa::new(setting)?.with_memory_floor(floor)),
            Self::Aimd => Box::new(Aimd::new(setting)?),
            Self::Ensure => Box::new(Ensure::new()?.with_memory_floor(floor)),
            Self::EnsureUtil => Box::new(Ensure::frugal()?.with_memory_floor(floor)),
            Self::Reactive => Box::new(Reactive::default()),
            Self::Plan => Box::new(Plan::new(price, PeakHold::default())?),
            Self::PlanForecast => forecast(networks::shipped()?, Care::default())?,
            Self::PlanPpo => Box::new(Residual::new(corrections::of_day(day)?, corrections::base(price, true)?)?),
            Self::PlanPpoUngated => {
                Box::new(Ppo::serving(corrections::of_day(day)?).on(corrections::base(price, true)?))
            }
            Self::PlanForecastUnseen => forecast(networks::without_azure()?, Care::default())?,
            Self::PlanForecastRaw => {
                forecast(networks::without_azure()?, Care { recalibrate: false, tune: false, gate: false })?
            }
            Self::PlanForecastRecalibrated => {
                forecast(networks::without_azure()?, Care { tune: false, ..Care::default() })?
            }
            Self::PlanKnown1 => known(1)?,
            Self::PlanKnown2 => known(2)?,
            Self::PlanKnown4 => known(4)?,
            Self::BestStatic => Box::new(Planned::new("best-static", vec![yardstick::best_static(tenant, cluster)])),
            Self::Clairvoyant => Box::new(Planned::new("clairvoyant", yardstick::clairvoyant(tenant, cluster))),
        })
    }
}

/// How a policy is set for one function.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    pub target: f64,
    /// Whether VPA must leave memory for every slot.
    pub roomy: bool,
}

/// A policy with its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contestant {
    pub kind: Kind,
    pub tuned: bool,
    /// The price of a miss for which settings were chosen, where that was the aim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
    /// One for each function, in the order of their places; one for all when there is only one.
    pub settings: Vec<Setting>,
}

impl Contestant {
    /// With the setting that comes with it.
    pub fn default_of(kind: Kind) -> Self {
        let target = kind.settings().map_or(0.0, |(default, _)| default);
        Self { kind, tuned: false, price: None, settings: vec![Setting { target, roomy: false }] }
    }

    pub fn setting(&self, place: usize) -> Setting {
        // Places beyond those that were tuned run the same functions again, or have no setting of their own.
        let again = place % functions().len();
        let own = if self.settings.len() == 1 { self.settings.first() } else { self.settings.get(place) };
        let usual = Setting { target: self.kind.settings().map_or(0.0, |(default, _)| default), roomy: false };
        own.or_else(|| self.settings.get(again)).copied().unwrap_or(usual)
    }

    pub fn label(&self) -> String {
        match (self.kind.settings(), self.tuned) {
            (_, true) => match self.price {
                Some(price) => format!("{}, tuned for {price}", self.kind.label()),
                None if self.kind.plans() => format!("{}, price matched", self.kind.label()),
                None => format!("{}, tuned", self.kind.label()),
            },
            (None, false) => self.kind.label().to_owned(),
            (Some(_), false) => format!("{} ({})", self.kind.label(), self.setting(0).target),
        }
    }
}
