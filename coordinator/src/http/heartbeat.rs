//! `POST /v1/agents/{id}/heartbeat`: the one route that is called all the time.

use std::time::Instant;

use axum::{
    BoxError,
    body::HttpBody,
    extract::State,
    http::{Method, Request, StatusCode},
    response::Response,
};
use meanfield_common::{
    identity::AgentId,
    wire::{Answer, Heartbeat},
};

use super::{
    auth::Member,
    body,
    openapi::Heartbeating,
    problem::{Kind, Refusal, respond},
};
use crate::coordinator::Coordinator;

/// Enough for an answer with every number at its longest.
const ANSWER_BYTES: usize = 1792;

/// Take one step of one agent and answer with the mean field of the others.
///
/// Idempotent by epoch and sequence: the same heartbeat may be sent again and is answered again.
#[utoipa::path(
    post,
    path = "/v1/agents/{id}/heartbeat",
    tag = "agents",
    params(("id" = uuid::Uuid, Path, description = "The agent's id")),
    request_body = Heartbeat,
    responses((status = 200, description = "Taken", body = Answer), Heartbeating),
    security(("token" = ["agent"]))
)]
pub async fn heartbeat(
    State(coordinator): State<Coordinator>,
    member: Member,
    body::Agent(agent): body::Agent,
    body::Json(heartbeat): body::Json<Heartbeat>,
) -> Response {
    respond(&coordinator, take(&coordinator, &member, agent, &heartbeat))
}

/// Whose heartbeat a request is, if it is one.
pub(super) fn sender<B>(request: &Request<B>) -> Option<AgentId> {
    let id = request.uri().path().strip_prefix("/v1/agents/")?.strip_suffix("/heartbeat")?;
    (request.method() == Method::POST).then(|| id.parse().ok())?
}

/// The same as [`heartbeat`], for who has not come by the router.
pub(super) async fn direct<B>(coordinator: &Coordinator, agent: AgentId, request: Request<B>) -> Response
where
    B: HttpBody<Error: Into<BoxError>>,
{
    let answered = async {
        let member = Member::admit(request.headers(), coordinator)?;
        let heartbeat = body::read(request, &coordinator.options().limits).await?;
        take(coordinator, &member, agent, &heartbeat)
    };
    respond(coordinator, answered.await)
}

fn take(
    coordinator: &Coordinator,
    member: &Member,
    agent: AgentId,
    heartbeat: &Heartbeat,
) -> Result<Response, Refusal> {
    let start = Instant::now();
    member.check_agent(coordinator, agent)?;
    let answered = coordinator.heartbeat(agent, heartbeat).map_err(Refusal::from).and_then(|answer| {
        let mut bytes = Vec::with_capacity(ANSWER_BYTES);
        match serde_json::to_writer(&mut bytes, &answer) {
            Ok(()) => Ok(super::json(StatusCode::OK, bytes)),
            Err(error) => Err(Refusal::new(Kind::Unavailable, error.to_string())),
        }
    });
    coordinator.metrics().heartbeat_seconds.observe(start.elapsed().as_secs_f64());
    answered
}

#[cfg(test)]
mod tests {
    use axum::{
        body::{Body, to_bytes},
        http::header,
    };
    use hyper_util::service::TowerToHyperService;
    use tower::ServiceExt;

    use super::*;
    use crate::{Clock, Options};

    const GOOD: &str = r#"{"epoch":1,"sequence":2,"state":{"slo_preservation":1,"cpu_utilisation":0.5,
        "memory_utilisation":0.5,"arrival_change":0,"cpu_limit":0.5,"memory_limit":0.5,"replicas":0.1},
        "action":{"cpu":0,"memory":0,"replicas":1},"reward":0.5}"#;

    fn request(method: Method, id: &str, token: &str, media_type: &str, body: &'static str) -> Request<Body> {
        Request::builder()
            .method(method)
            .uri(format!("/v1/agents/{id}/heartbeat"))
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .header(header::CONTENT_TYPE, media_type)
            .body(Body::from(body))
            .unwrap()
    }

    #[tokio::test]
    async fn past_the_router_the_answer_is_the_same() {
        let coordinator = Coordinator::open(Options::default(), Clock::manual()).unwrap();
        let register = r#"{"name":"a","pool":"default","category":"cpu"}"#;
        let registered = coordinator.register(serde_json::from_str(register).unwrap()).await.unwrap();
        let router = crate::http::router(coordinator.clone());
        let (id, token) = (registered.agent.to_string(), coordinator.token());
        let nobody = uuid::Uuid::nil().to_string();
        const JSON: &str = "application/json";
        for (method, id, token, media_type, body, (status, past)) in [
            (Method::POST, &*id, token, JSON, GOOD, (200, true)),
            (Method::POST, &id.to_uppercase(), token, JSON, GOOD, (200, true)),
            (Method::POST, &id, "wrong", JSON, GOOD, (401, true)),
            (Method::POST, &id, token, "text/plain", GOOD, (415, true)),
            (Method::POST, &id, token, JSON, "{}", (422, true)),
            (Method::POST, &id, token, JSON, "", (400, true)),
            (Method::POST, &nobody, token, JSON, GOOD, (404, true)),
            (Method::POST, "me", token, JSON, GOOD, (422, false)),
            (Method::POST, "me", "wrong", JSON, GOOD, (401, false)),
            (Method::POST, "a/b", token, JSON, GOOD, (404, false)),
            (Method::GET, &id, token, JSON, GOOD, (405, false)),
        ] {
            let ask = || request(method.clone(), id, token, media_type, body);
            assert_eq!(sender(&ask()).is_some(), past, "{method} {id}");
            let by_router = router.clone().oneshot(ask()).await.unwrap();
            let service = TowerToHyperService::new(router.clone());
            let answered = crate::http::answer(&coordinator, &service, ask()).await.unwrap();
            assert_eq!((by_router.status().as_u16(), answered.status()), (status, by_router.status()), "{body}");
            assert_eq!(answered.headers().get(header::CONTENT_TYPE), by_router.headers().get(header::CONTENT_TYPE));
            let bytes = async |response: Response| to_bytes(response.into_body(), 1 << 16).await.unwrap();
            assert_eq!(bytes(answered).await, bytes(by_router).await, "{body}");
        }
    }

    #[test]
    fn the_way_through_the_router_costs_more_allocations_than_the_rest() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let coordinator = Coordinator::open(Options::default(), Clock::manual()).unwrap();
        let register = r#"{"name":"a","pool":"default","category":"cpu"}"#;
        let registered = runtime.block_on(coordinator.register(serde_json::from_str(register).unwrap())).unwrap();
        let (id, router) = (registered.agent.to_string(), crate::http::router(coordinator.clone()));
        let service = TowerToHyperService::new(router.clone());
        let ask = || request(Method::POST, &id, coordinator.token(), "application/json", GOOD);
        let routed = || {
            let (ask, router) = (ask(), router.clone());
            let answer = allocation_counter::measure(|| drop(runtime.block_on(router.oneshot(ask))));
            answer.count_total
        };
        let direct = || {
            let ask = ask();
            let answer = crate::http::answer(&coordinator, &service, ask);
            allocation_counter::measure(|| drop(runtime.block_on(answer))).count_total
        };
        // The first ones set up what lasts.
        let _ = (routed(), direct());
        let (routed, direct) = (routed(), direct());
        assert!(direct > 0 && routed > 2 * direct, "{routed} allocations by way of the router, {direct} past it");
    }
}
