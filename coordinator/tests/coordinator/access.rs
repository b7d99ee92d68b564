//! Tokens: made, listed, used, expired, revoked, kept over a restart, and used too often.

use std::{collections::BTreeSet, fs, time::Duration};

use meanfield_common::wire::Registered;
use meanfield_coordinator::{
    Clock, Coordinator, Options,
    access::{NewToken, Role, TokenFilter},
    coordinator::Made,
    http::tokens::{Issued, Tokens},
    options::Rates,
    orders::{Ordered, Terms},
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json, to_value};

use crate::support::*;

async fn status(served: &Served, token: &str, path: &str) -> StatusCode {
    send(served.with(token, Method::GET, path)).await.status
}

#[tokio::test]
async fn a_token_is_shown_once_listed_without_its_secret_and_revoked() {
    let served = Served::start(Options::default()).await;
    let reply = served.post("/v1/tokens", &json!({"name": "ci/dashboard", "role": "reader"})).await;
    assert_eq!((reply.status, reply.headers["cache-control"].to_str().unwrap()), (StatusCode::CREATED, "no-store"));
    let issued: Issued = reply.json();
    assert_eq!((issued.view.name.as_str(), issued.view.created_by.as_str()), ("ci/dashboard", "coordinator"));
    assert!(issued.token.starts_with(&format!("mf_{}_", issued.view.id)) && issued.token.len() == 84);
    assert_eq!(status(&served, &issued.token, "/v1/agents").await, StatusCode::OK);

    let listed = served.get("/v1/tokens").await;
    let secret = issued.token.rsplit('_').next().unwrap();
    assert!(!listed.body.contains(secret), "{listed:?}");
    assert_eq!(listed.json::<Tokens>().tokens, std::slice::from_ref(&issued.view));

    // Wrong in one digit of the secret or of the id, cut, or in capitals.
    let flipped = |at: usize| {
        let mut bytes = issued.token.clone().into_bytes();
        bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
        String::from_utf8(bytes).unwrap()
    };
    let upper = issued.token.to_uppercase();
    for wrong in [&flipped(83), &flipped(20), &flipped(5), &issued.token[..83], &upper, secret] {
        assert_eq!(status(&served, wrong, "/v1/agents").await, StatusCode::UNAUTHORIZED, "{wrong}");
    }

    let own = format!("/v1/tokens/{}", issued.view.id);
    assert_eq!(send(served.request(Method::DELETE, &own)).await.status, StatusCode::NO_CONTENT);
    assert_eq!(status(&served, &issued.token, "/v1/agents").await, StatusCode::UNAUTHORIZED);
    let again = send(served.request(Method::DELETE, &own)).await;
    assert_eq!((again.status, again.problem().kind.as_str()), (StatusCode::NOT_FOUND, "/problems/unknown-token"));
    assert!(served.get("/v1/tokens").await.json::<Tokens>().tokens.is_empty());
    served.ended().await.unwrap();
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_by_field() {
    let served = Served::start(Options::default()).await;
    for (body, field) in [
        (json!({"name": "A b", "role": "reader"}), "name"),
        (json!({"name": "a", "role": "king"}), "role"),
        (json!({"name": "a", "role": "agent"}), "pool"),
        (json!({"name": "a", "role": "agent", "pool": "elsewhere"}), "pool"),
        (json!({"name": "a", "role": "reader", "pool": "default"}), "pool"),
        (json!({"name": "a", "role": "reader", "agents": "*"}), "agents"),
        (json!({"name": "a", "role": "agent", "pool": "default", "agents": "A"}), "agents"),
        (json!({"name": "a", "role": "reader", "expires_in_s": 0}), "expires_in_s"),
        (json!({"name": "a", "role": "reader", "expires_in_s": 400_000_000}), "expires_in_s"),
        (json!({"name": "a", "role": "reader", "rate": 0}), "rate"),
        (json!({"name": "a", "role": "reader", "extra": 1}), "extra"),
    ] {
        let problem = served.post("/v1/tokens", &body).await.problem();
        assert_eq!((problem.status, problem.field.as_deref()), (422, Some(field)), "{body}: {problem:?}");
    }
    for (query, field) in
        [("limit=0", "limit"), ("after=x", "after"), ("role=king", "role"), ("pool=A", "pool"), ("offset=1", "offset")]
    {
        let problem = served.get(&format!("/v1/tokens?{query}")).await.problem();
        assert_eq!((problem.status, problem.field.as_deref()), (422, Some(field)), "{query}: {problem:?}");
    }
    assert!(served.coordinator.tokens(&TokenFilter::default(), None, 10).is_empty());
    served.ended().await.unwrap();
}

#[tokio::test]
async fn a_token_has_a_tag_and_what_is_only_tried_is_neither_made_nor_revoked() {
    let served = Served::start(Options::default()).await;
    let post = |query: &str| {
        served.request(Method::POST, &format!("/v1/tokens{query}")).json(&json!({"name": "a", "role": "reader"}))
    };
    let reply = send(post("?dry_run=true")).await;
    let tried: Ordered = reply.json();
    assert_eq!(
        (reply.status, tried.action.as_str(), tried.target.as_str()),
        (StatusCode::OK, "token.create", "tokens")
    );
    assert_eq!((tried.after["role"].as_str(), tried.etag, tried.dry_run), (Some("reader"), None, true));
    assert!(!reply.body.contains("mf_") && served.coordinator.tokens(&TokenFilter::default(), None, 10).is_empty());
    assert_eq!(send(post("").header("if-match", "*")).await.status, 412, "there is nothing yet that could match");
    assert_eq!(served.post("/v1/tokens?dry_run=true", &json!({"name": "a", "role": "agent"})).await.status, 422);

    let made = send(post("")).await;
    let issued: Issued = made.json();
    let (path, tag) = (format!("/v1/tokens/{}", issued.view.id), made.headers["etag"].to_str().unwrap());
    let shown = served.get(&path).await;
    assert_eq!((shown.headers["etag"].to_str().unwrap(), shown.json()), (tag, issued.view.clone()));
    assert!(!shown.body.contains(issued.token.rsplit('_').next().unwrap()));
    let other = served.token(json!({"name": "b", "role": "reader"})).await.view.id;
    let other = served.get_tag(&format!("/v1/tokens/{other}")).await;
    let revoke = |query: &str| served.request(Method::DELETE, &format!("{path}{query}"));
    let refused = send(revoke("").header("if-match", &other)).await.problem();
    assert_eq!((refused.status, refused.bound.as_deref()), (412, Some(tag)));
    assert_eq!(send(revoke("").header("if-none-match", tag)).await.status, 412);
    let tried: Ordered = send(revoke("?dry_run=true").header("if-match", tag)).await.json();
    assert_eq!((tried.action.as_str(), &tried.after, tried.changed), ("token.revoke", &Value::Null, true));
    assert_eq!(status(&served, &issued.token, "/v1/agents").await, StatusCode::OK, "it still counts");
    assert_eq!(send(revoke("").header("if-match", tag)).await.status, 204);
    assert_eq!(status(&served, &issued.token, "/v1/agents").await, StatusCode::UNAUTHORIZED);
    assert_eq!(served.get(&path).await.problem().kind, "/problems/unknown-token");
    assert_eq!(send(revoke("").header("if-match", tag)).await.status, 404);
    served.ended().await.unwrap();
}

#[tokio::test]
async fn lists_of_tokens_come_by_page() {
    let served = Served::start(Options::default()).await;
    let mut made = BTreeSet::new();
    for token in 0..7 {
        made.insert(served.token(json!({"name": format!("t{token}"), "role": "reader"})).await.view.id);
    }
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page: Tokens = served.get(&format!("/v1/tokens?limit=3{after}")).await.json();
        assert!(page.tokens.len() <= 3);
        seen.extend(page.tokens.iter().map(|token| token.id));
        let Some(next) = page.next else { break };
        after = format!("&after={next}");
    }
    assert_eq!(seen, made.into_iter().collect::<Vec<_>>());
    served.ended().await.unwrap();
}

#[tokio::test]
async fn filters_choose_tokens_by_role_pool_and_name() {
    let served = Served::start(Options::default()).await;
    for (name, role) in [("shop/a", "agent"), ("shop/b", "agent"), ("shop/c", "reader"), ("bank", "reader")] {
        let pool = (role == "agent").then_some("default");
        served.token(json!({"name": name, "role": role, "pool": pool})).await;
    }
    for (query, expected) in [
        ("role=agent", &["shop/a", "shop/b"][..]),
        ("role=reader&prefix=shop%2F", &["shop/c"]),
        ("pool=default", &["shop/a", "shop/b"]),
        ("pool=elsewhere", &[]),
        ("prefix=shop", &["shop/a", "shop/b", "shop/c"]),
        ("role=admin", &[]),
    ] {
        // One by one, so that what is left out does not end a list too early.
        let (mut seen, mut after) = (BTreeSet::new(), String::new());
        loop {
            let page: Tokens = served.get(&format!("/v1/tokens?limit=1&{query}{after}")).await.json();
            seen.extend(page.tokens.iter().map(|token| token.name.to_string()));
            let Some(next) = page.next else { break };
            after = format!("&after={next}");
        }
        assert!(seen.iter().eq(expected), "{query}: {seen:?}");
    }
    served.ended().await.unwrap();
}

#[tokio::test]
async fn a_token_ends_when_its_time_is_over() {
    let clock = Clock::manual();
    let served = Served::start_at(Options::default(), clock.clone()).await;
    let issued = served.token(json!({"name": "a", "role": "reader", "expires_in_s": 60})).await;
    clock.advance(Duration::from_secs(59));
    assert_eq!(status(&served, &issued.token, "/v1/pools").await, StatusCode::OK);
    clock.advance(Duration::from_secs(1));
    let reply = send(served.with(&issued.token, Method::GET, "/v1/pools")).await;
    assert_eq!((reply.status, reply.problem().detail.as_str()), (StatusCode::UNAUTHORIZED, "the token has expired"));
    assert!(served.get("/v1/tokens").await.json::<Tokens>().tokens[0].expired, "it is listed until it is revoked");
    served.ended().await.unwrap();
}

#[tokio::test]
async fn an_agents_token_is_for_its_own_agents_only() {
    let options = Options { pools: vec![pool("default"), pool("west")], ..Options::default() };
    let served = Served::start(options).await;
    let shop = served.token(json!({"name": "shop", "role": "agent", "pool": "default", "agents": "shop/*"})).await;
    let other = member(&served.coordinator, "bank/ledger").await;
    let post = async |path: &str, body: Value| send(served.with(&shop.token, Method::POST, path).json(&body)).await;

    let reply = post("/v1/agents", to_value(register("shop/cart")).unwrap()).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
    let own: Registered = reply.json();
    let message = to_value(beat(own.epoch, 1, 60)).unwrap();
    let reply = post(&format!("/v1/agents/{}/heartbeat", own.agent), message.clone()).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");

    let mut west = register("shop/cart");
    west.pool = pool("west");
    let before = served.coordinator.agents();
    for (path, body) in [
        ("/v1/agents".to_owned(), to_value(register("bank/ledger")).unwrap()),
        ("/v1/agents".to_owned(), to_value(west).unwrap()),
        (format!("/v1/agents/{}/heartbeat", other.agent), message.clone()),
        (format!("/v1/agents/{}/leave", other.agent), json!({"epoch": 1})),
    ] {
        let reply = post(&path, body).await;
        let problem = reply.problem();
        assert_eq!((problem.status, problem.kind.as_str()), (403, "/problems/forbidden"), "{path}: {problem:?}");
        assert!(problem.bound.unwrap().contains("\"shop/*\" in the pool \"default\""));
    }
    assert_eq!(served.coordinator.agents(), before);

    // Who is no member is told so, since it has to register again.
    let gone = "/v1/agents/00000000-0000-0000-0000-000000000000/heartbeat";
    assert_eq!(post(gone, message).await.problem().kind, "/problems/unknown-agent");
    assert_eq!(status(&served, &shop.token, "/v1/pools/default/forecast").await, StatusCode::NOT_FOUND);
    assert_eq!(status(&served, &shop.token, "/v1/pools/west/forecast").await, StatusCode::FORBIDDEN);
    let left = post(&format!("/v1/agents/{}/leave", own.agent), json!({"epoch": 1})).await;
    assert_eq!(left.status, StatusCode::NO_CONTENT);
    served.ended().await.unwrap();
}

fn new(name: &str, role: Role) -> NewToken {
    serde_json::from_value(json!({"name": name, "role": role})).unwrap()
}

#[test]
fn tokens_outlast_a_restart_and_so_does_a_revocation() {
    let dir = tempfile::tempdir().unwrap();
    let mut secrets = Vec::new();
    let views = block_on(async {
        let coordinator = on_disk(dir.path()).unwrap();
        let mut views = Vec::new();
        for name in ["a", "b", "c"] {
            let made = coordinator.issue(new(name, Role::Operator), Terms::default()).await.unwrap();
            let Made::Token(secret, view, _) = made else { panic!("{made:?}") };
            secrets.push(secret);
            views.push(view);
        }
        coordinator.revoke(views.remove(1).id, Terms::default()).await.unwrap();
        views.sort_by_key(|view| view.id);
        views
    });
    let again = on_disk(dir.path()).unwrap();
    assert_eq!(again.tokens(&TokenFilter::default(), None, 10), views);
    drop(again);
    let format = sled::open(dir.path().join("store")).unwrap().get("format").unwrap().unwrap();
    assert_eq!(&*format, b"5", "older programs refuse it");
    // What is on the disk lets nobody in.
    for entry in ["store/db", "store/conf", "commits"] {
        let bytes = fs::read(dir.path().join(entry)).unwrap();
        for secret in &secrets {
            let secret = secret.expose().rsplit('_').next().unwrap();
            assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{entry}");
        }
    }
}

#[tokio::test]
async fn who_asks_too_often_is_told_when_to_come_back() {
    let clock = Clock::manual();
    let options = Options { rates: Rates { agents: 0, others: 3 }, ..Options::default() };
    let served = Served::start_at(options, clock.clone()).await;
    let (usual, own) = (
        served.token(json!({"name": "a", "role": "reader"})).await.token,
        served.token(json!({"name": "b", "role": "reader", "rate": 1})).await.token,
    );
    for (token, rate) in [(&usual, 3), (&own, 1)] {
        for _ in 0..rate {
            assert_eq!(status(&served, token, "/v1/pools").await, StatusCode::OK);
        }
        let reply = send(served.with(token, Method::GET, "/v1/pools")).await;
        assert_eq!(
            (reply.status, &reply.headers["retry-after"]),
            (StatusCode::TOO_MANY_REQUESTS, &"1".parse().unwrap())
        );
        assert_eq!(reply.problem().kind, "/problems/too-many-requests");
    }
    // One token's bucket is nobody else's, and it fills again.
    assert_eq!(served.get("/v1/pools").await.status, StatusCode::OK);
    clock.advance(Duration::from_millis(1000));
    assert_eq!(status(&served, &usual, "/v1/pools").await, StatusCode::OK);
    assert_eq!(status(&served, &own, "/v1/pools").await, StatusCode::OK);
    assert_eq!(status(&served, &own, "/v1/pools").await, StatusCode::TOO_MANY_REQUESTS);
    served.ended().await.unwrap();
}

#[tokio::test]
async fn a_token_in_the_wrong_place_is_not_repeated() {
    let served = Served::start(Options::default()).await;
    let made = served.token(json!({"name": "a", "role": "admin"})).await.token;
    for token in [made.as_str(), served.coordinator.token()] {
        for (method, path) in [
            (Method::GET, format!("/v1/{token}")),
            (Method::DELETE, format!("/v1/tokens/{token}")),
            (Method::PUT, format!("/v1/tokens/{token}")),
            (Method::GET, format!("/v1/agents?{token}=1")),
            (Method::GET, format!("/v1/agents?pool={token}")),
            (Method::GET, format!("/v1/agents/{token}")),
        ] {
            let reply = send(served.request(method.clone(), &path)).await;
            assert!(reply.status.is_client_error() && !reply.body.contains(token), "{method} {path}: {reply:?}");
        }
        let reply = served.post("/v1/agents", &json!({"name": format!("{token} "), "pool": "default"})).await;
        assert!(reply.status.is_client_error() && !reply.body.contains(token), "{reply:?}");
    }
    served.ended().await.unwrap();
}

#[test]
fn options_do_not_show_their_token() {
    let options = Options { token: Some("a-token-of-my-own".into()), ..Options::default() };
    assert!(!format!("{options:?}").contains("a-token-of-my-own"));
    let coordinator = Coordinator::open(options, Clock::manual()).unwrap();
    assert_eq!(coordinator.token(), "a-token-of-my-own");
}
