//! Every route of the OpenAPI document, called with every role and with none: who is let in is what this table and the
//! document say. A route without a line here fails.

use std::collections::BTreeMap;

use meanfield_coordinator::{Options, access::Role};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::*;

/// Who may call an operation: the roles that it needs one of, none for those that need no token.
const RULES: [(&str, &[Role]); 69] = [
    ("register", &[Role::Agent]),
    ("heartbeat", &[Role::Agent]),
    ("heartbeats", &[Role::Agent]),
    ("list_models", &[Role::Reader]),
    ("show_model", &[Role::Reader]),
    ("add_model", &[Role::Operator]),
    ("remove_model", &[Role::Operator]),
    ("download_model", &[Role::Agent, Role::Reader]),
    ("serve_model", &[Role::Operator]),
    ("roll_back_model", &[Role::Operator]),
    ("contribute", &[Role::Agent]),
    ("append_steps", &[Role::Agent]),
    ("latest_rewards", &[Role::Reader]),
    ("list_trajectories", &[Role::Reader]),
    ("sample_steps", &[Role::Reader]),
    ("export_steps", &[Role::Reader]),
    ("import_steps", &[Role::Operator]),
    ("leave", &[Role::Agent]),
    ("list_agents", &[Role::Reader]),
    ("show_agent", &[Role::Reader]),
    ("remove_agent", &[Role::Operator]),
    ("pause_agent", &[Role::Operator]),
    ("resume_agent", &[Role::Operator]),
    ("pause_all", &[Role::Operator]),
    ("resume_all", &[Role::Operator]),
    ("list_pools", &[Role::Reader]),
    ("show_pool", &[Role::Reader]),
    ("set_pool", &[Role::Operator]),
    ("remove_pool", &[Role::Operator]),
    ("set_capacity", &[Role::Operator]),
    ("clear_capacity", &[Role::Operator]),
    ("share_forecast", &[Role::Operator]),
    ("download_forecast", &[Role::Agent, Role::Reader]),
    ("withdraw_forecast", &[Role::Operator]),
    ("show_agent_pause", &[Role::Reader]),
    ("show_pause", &[Role::Reader]),
    ("show_agent_fallback", &[Role::Reader]),
    ("show_pool_fallback", &[Role::Reader]),
    ("show_fallback", &[Role::Reader]),
    ("show_lifecycle", &[Role::Reader]),
    ("show_capacity", &[Role::Reader]),
    ("show_budget", &[Role::Reader]),
    ("show_scarcity", &[Role::Reader]),
    ("set_scarcity", &[Role::Operator]),
    ("clear_scarcity", &[Role::Operator]),
    ("list_cuts", &[Role::Reader]),
    ("show_entitlement", &[Role::Reader]),
    ("set_entitlement", &[Role::Operator]),
    ("clear_entitlement", &[Role::Operator]),
    ("list_audit", &[Role::Reader]),
    ("watch_events", &[Role::Reader]),
    ("fallback_all", &[Role::Operator]),
    ("lift_fallback_all", &[Role::Operator]),
    ("fallback_pool", &[Role::Operator]),
    ("lift_fallback_pool", &[Role::Operator]),
    ("fallback_agent", &[Role::Operator]),
    ("lift_fallback_agent", &[Role::Operator]),
    ("set_lifecycle", &[Role::Operator]),
    ("clear_lifecycle", &[Role::Operator]),
    ("set_budget", &[Role::Operator]),
    ("clear_budget", &[Role::Operator]),
    ("create_token", &[Role::Admin]),
    ("list_tokens", &[Role::Admin]),
    ("show_token", &[Role::Admin]),
    ("revoke_token", &[Role::Admin]),
    ("metrics", &[]),
    ("livez", &[]),
    ("readyz", &[]),
    ("openapi", &[]),
];

#[tokio::test]
async fn every_route_lets_in_whom_it_says() {
    let served = Served::start(Options::default()).await;
    let mut tokens = BTreeMap::new();
    for role in Role::ALL {
        let pool = (role == Role::Agent).then_some("default");
        let issued = served.token(json!({"name": role.name(), "role": role, "pool": pool})).await;
        tokens.insert(role.name(), issued.token);
    }
    let mut rules = BTreeMap::from(RULES);
    let document: Value = send(served.bare(Method::GET, "/openapi.json")).await.json();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            let needed = rules.remove(id).unwrap_or_else(|| panic!("{method} {path}: who may call {id}?"));
            let said: Vec<_> = needed.iter().map(|role| role.name()).collect();
            let documented = operation.pointer("/security/0/token").cloned().unwrap_or(json!([]));
            assert_eq!(documented, json!(said), "{method} {path}: its `security` must name the roles");

            let method: Method = method.to_uppercase().parse().unwrap();
            // Nothing of this exists, so that whoever is let in is refused for another reason, and nothing changes.
            let path = path.replace("{pool}", "nowhere").replace("{model}", "nothing");
            // Events of a pool that exists would never end.
            let path = if id == "watch_events" { format!("{path}?pool=nowhere") } else { path };
            let path = path.replace("{id}", if path.contains("tokens") { "0000000000000000" } else { NOBODY });
            let bare = send(served.bare(method.clone(), &path)).await;
            assert_eq!(bare.status == 401, !needed.is_empty(), "{method} {path} without a token: {bare:?}");
            for role in Role::ALL {
                let reply = send(served.with(&tokens[role.name()], method.clone(), &path)).await;
                let allowed = needed.is_empty() || needed.iter().any(|needed| role.includes(*needed));
                // An agent's token ends at its pool, which this is not.
                let elsewhere = id == "download_forecast" && role == Role::Agent;
                assert_eq!(reply.status != 403, allowed && !elsewhere, "{method} {path} as {role:?}: {reply:?}");
                assert_ne!(reply.status, 401, "{method} {path} as {role:?}");
                assert!(operation["responses"].get(reply.status.as_str()).is_some(), "{method} {path}: {reply:?}");
                if !allowed {
                    let problem = reply.problem();
                    assert_eq!(
                        (problem.kind.as_str(), problem.field.as_deref()),
                        ("/problems/forbidden", Some("role"))
                    );
                    assert_eq!(problem.bound.as_deref(), Some(needed[0].holders()));
                    assert!(problem.detail.contains(needed[0].name()) && problem.detail.contains(role.name()));
                }
            }
        }
    }
    assert!(rules.is_empty(), "no such routes: {rules:?}");
    served.ended().await.unwrap();
}

const NOBODY: &str = "00000000-0000-0000-0000-000000000000";
