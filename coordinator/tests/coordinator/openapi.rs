//! The committed OpenAPI document is what the code serves.

use std::{collections::BTreeSet, env, fs, path::Path};

use meanfield_coordinator::{Options, http};
use reqwest::Method;
use serde_json::Value;

use crate::support::*;

#[test]
fn the_committed_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json");
    let document = http::document();
    if env::var_os("MEANFIELD_BLESS").is_some() {
        fs::write(&path, &document).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == document, "docs/openapi.json differs: run this test with MEANFIELD_BLESS=1 and commit it");
}

#[tokio::test]
async fn every_documented_route_exists_and_needs_the_token_if_it_says_so() {
    let served = Served::start(Options::default()).await;
    let document: Value = send(served.bare(Method::GET, "/openapi.json")).await.json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut names = BTreeSet::new();
    let mut routes = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let reply = send(served.bare(method.clone(), path)).await;
            let guarded = path.starts_with("/v1/");
            assert_eq!(operation.get("security").is_some(), guarded, "{method} {path}");
            assert_eq!(reply.status == 401, guarded, "{method} {path}: {reply:?}");
            assert!(operation["responses"].get(reply.status.as_str()).is_some(), "{method} {path}: {reply:?}");
            assert!(names.insert(operation["operationId"].to_string()), "{method} {path}: its id is used twice");
            routes += 1;
        }
    }
    assert_eq!(routes, 69);
    served.ended().await.unwrap();
}
