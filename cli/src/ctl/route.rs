//! Every route that `meanfield ctl` calls. A test compares them with the OpenAPI document.

use reqwest::Method;

macro_rules! routes {
    ($($route:ident = $method:ident $path:literal;)*) => {
        /// A route of the API.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Route { $($route,)* }

        impl Route {
            /// All of them.
            #[cfg(test)]
            pub const ALL: &'static [Self] = &[$(Self::$route),*];

            pub fn method(self) -> Method {
                match self { $(Self::$route => Method::$method),* }
            }

            /// The path, with names in braces for what comes in.
            pub fn template(self) -> &'static str {
                match self { $(Self::$route => $path),* }
            }
        }
    };
}

routes! {
    ListAgents = GET "/v1/agents";
    ShowAgent = GET "/v1/agents/{id}";
    RemoveAgent = DELETE "/v1/agents/{id}";
    ShowAgentPause = GET "/v1/agents/{id}/pause";
    PauseAgent = POST "/v1/agents/{id}/pause";
    ResumeAgent = POST "/v1/agents/{id}/resume";
    ShowAgentFallback = GET "/v1/agents/{id}/fallback";
    FallbackAgent = POST "/v1/agents/{id}/fallback";
    LiftFallbackAgent = DELETE "/v1/agents/{id}/fallback";
    ShowLifecycle = GET "/v1/agents/{id}/lifecycle";
    SetLifecycle = PUT "/v1/agents/{id}/lifecycle";
    ClearLifecycle = DELETE "/v1/agents/{id}/lifecycle";
    ShowEntitlement = GET "/v1/agents/{id}/entitlement";
    SetEntitlement = PUT "/v1/agents/{id}/entitlement";
    ClearEntitlement = DELETE "/v1/agents/{id}/entitlement";
    ListPools = GET "/v1/pools";
    ShowPool = GET "/v1/pools/{pool}";
    SetPool = PUT "/v1/pools/{pool}";
    RemovePool = DELETE "/v1/pools/{pool}";
    ShowCapacity = GET "/v1/pools/{pool}/capacity";
    SetCapacity = PUT "/v1/pools/{pool}/capacity";
    ClearCapacity = DELETE "/v1/pools/{pool}/capacity";
    ShowScarcity = GET "/v1/pools/{pool}/scarcity";
    SetScarcity = PUT "/v1/pools/{pool}/scarcity";
    ClearScarcity = DELETE "/v1/pools/{pool}/scarcity";
    ListCuts = GET "/v1/pools/{pool}/cuts";
    ShowBudget = GET "/v1/pools/{pool}/budget";
    SetBudget = PUT "/v1/pools/{pool}/budget";
    ClearBudget = DELETE "/v1/pools/{pool}/budget";
    DownloadForecast = GET "/v1/pools/{pool}/forecast";
    ShareForecast = PUT "/v1/pools/{pool}/forecast";
    WithdrawForecast = DELETE "/v1/pools/{pool}/forecast";
    ShowPoolFallback = GET "/v1/pools/{pool}/fallback";
    FallbackPool = POST "/v1/pools/{pool}/fallback";
    LiftFallbackPool = DELETE "/v1/pools/{pool}/fallback";
    ShowPause = GET "/v1/pause";
    PauseAll = POST "/v1/pause";
    ResumeAll = POST "/v1/resume";
    ShowFallback = GET "/v1/fallback";
    FallbackAll = POST "/v1/fallback";
    LiftFallbackAll = DELETE "/v1/fallback";
    ListModels = GET "/v1/models";
    ShowModel = GET "/v1/models/{model}";
    AddModel = POST "/v1/models/{model}";
    RemoveModel = DELETE "/v1/models/{model}";
    DownloadModel = GET "/v1/models/{model}/file";
    ServeModel = PUT "/v1/models/{model}/serving";
    RollBackModel = POST "/v1/models/{model}/rollback";
    CreateToken = POST "/v1/tokens";
    ListTokens = GET "/v1/tokens";
    ShowToken = GET "/v1/tokens/{id}";
    RevokeToken = DELETE "/v1/tokens/{id}";
    LatestRewards = GET "/v1/agents/{id}/rewards";
    ListTrajectories = GET "/v1/trajectories";
    SampleSteps = GET "/v1/trajectories/samples";
    ExportSteps = GET "/v1/trajectories/export";
    ImportSteps = POST "/v1/trajectories/import";
    ListAudit = GET "/v1/audit";
    WatchEvents = GET "/v1/events";
}

impl Route {
    /// The path with a value in the place of its name, `/` in it being written so that it stays one part.
    pub fn path(self, value: &str) -> String {
        let value = value.replace('%', "%25").replace('/', "%2F");
        ["{id}", "{pool}", "{model}"].iter().fold(self.template().to_owned(), |path, name| path.replace(name, &value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// What agents themselves call: nobody does that by hand.
    const OF_AGENTS: [(&str, &str); 6] = [
        ("post", "/v1/agents"),
        ("post", "/v1/agents/{id}/heartbeat"),
        ("post", "/v1/heartbeats"),
        ("post", "/v1/agents/{id}/leave"),
        ("post", "/v1/agents/{id}/trajectories"),
        ("put", "/v1/models/{model}/contributions/{id}"),
    ];

    /// A route that is never called would not compile: it would be a variant that is never made.
    #[test]
    fn every_route_of_the_api_has_a_command() {
        let document: serde_json::Value = serde_json::from_str(&meanfield_coordinator::http::document()).unwrap();
        let mut documented = BTreeSet::new();
        for (path, operations) in document["paths"].as_object().unwrap() {
            for method in operations.as_object().unwrap().keys() {
                documented.insert((method.clone(), path.clone()));
            }
        }
        for (method, path) in OF_AGENTS {
            assert!(documented.remove(&(method.to_owned(), path.to_owned())), "there is no {method} {path}");
        }
        documented.retain(|(_, path)| path.starts_with("/v1/"));
        let covered: BTreeSet<_> = Route::ALL
            .iter()
            .map(|route| (route.method().as_str().to_lowercase(), route.template().to_owned()))
            .collect();
        assert_eq!(covered, documented, "a route without a command, or a command without its route");
    }

    #[test]
    fn names_stay_one_part_of_the_path() {
        assert_eq!(Route::SetBudget.path("a/b"), "/v1/pools/a%2Fb/budget");
    }
}
