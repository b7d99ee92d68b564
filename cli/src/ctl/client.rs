//! The coordinator, as `meanfield ctl` speaks to it.

use std::{path::Path, time::Duration};

use anyhow::Context;
use meanfield_agent::http;
use meanfield_common::{invalid::Invalid, wire::Problem};
use meanfield_coordinator::token;
use reqwest::{Client as Inner, RequestBuilder, Response, Url, header};
use serde_json::{Value, json};

use super::{
    args::{Access, Format, Terms},
    output,
    route::Route,
};
use crate::file;

/// How long the coordinator may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The coordinator refused, and said why.
#[derive(Debug, thiserror::Error)]
#[error("refused ({}): {}{}", .0.kind.trim_start_matches("/problems/"), .0.detail, hint(.0))]
pub struct Refused(pub Problem);

fn hint(problem: &Problem) -> String {
    match (&problem.field, &problem.bound) {
        // A detail that is an `Invalid` has both already.
        (Some(_), Some(bound)) if problem.detail.contains(bound.as_str()) => String::new(),
        (Some(field), Some(bound)) => format!(" ({field} must be {bound})"),
        _ => String::new(),
    }
}

/// A body that goes with a request.
pub enum Body {
    None,
    Json(Value),
    File(Vec<u8>),
}

impl Body {
    fn put_on(self, request: RequestBuilder) -> RequestBuilder {
        match self {
            Self::None => request,
            Self::Json(value) => request.json(&value),
            Self::File(bytes) => request.header(header::CONTENT_TYPE, "application/octet-stream").body(bytes),
        }
    }
}

pub struct Client {
    inner: Inner,
    base: String,
    token: String,
    pub format: Format,
}

impl Client {
    /// A client as these settings have it; nothing is sent yet.
    pub fn new(access: &Access) -> anyhow::Result<Self> {
        let url = &access.coordinator;
        let parsed = Url::parse(url).ok().filter(|url| ["http", "https"].contains(&url.scheme()) && url.has_host());
        let Some(parsed) = parsed else {
            return Err(Invalid::new("coordinator", url, "a URL such as http://127.0.0.1:7600 or https://...").into());
        };
        let token = match &access.token {
            Some(token) => token.clone(),
            None => token::read(&access.data_dir).context("no --token is given, and none is found in --data-dir")?,
        };
        let builder = http::builder(parsed.scheme() == "https", &access.trust.read()?)?;
        let inner = builder.connect_timeout(PATIENCE).build()?;
        Ok(Self { inner, base: url.trim_end_matches('/').to_owned(), token, format: access.output })
    }

    fn request(&self, route: Route, of: &str, query: &[(&str, String)]) -> anyhow::Result<RequestBuilder> {
        let url = format!("{}{}", self.base, route.path(of));
        let url = if query.is_empty() { Url::parse(&url) } else { Url::parse_with_params(&url, query) };
        Ok(self.inner.request(route.method(), url?).bearer_auth(&self.token))
    }

    async fn send(&self, request: RequestBuilder) -> anyhow::Result<Response> {
        let response = request.send().await.with_context(|| format!("cannot reach {}", self.base))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, text) = (response.status(), response.text().await.unwrap_or_default());
        match serde_json::from_str::<Problem>(&text) {
            Ok(problem) => Err(Refused(problem).into()),
            Err(_) => anyhow::bail!("{} answered {status} without a problem", self.base),
        }
    }

    /// Looks at something; its entity tag, if it has one, is among it.
    pub async fn get(&self, route: Route, of: &str, query: &[(&str, String)]) -> anyhow::Result<Value> {
        let request = self.request(route, of, query)?.timeout(PATIENCE);
        let response = self.send(request).await?;
        let tag = tag(&response);
        let mut value: Value = response.json().await?;
        if let (Some(tag), Some(object)) = (tag, value.as_object_mut()) {
            object.insert("etag".to_owned(), tag.into());
        }
        Ok(value)
    }

    /// Downloads a file.
    pub async fn download(&self, route: Route, of: &str) -> anyhow::Result<Vec<u8>> {
        let response = self.send(self.request(route, of, &[])?.timeout(PATIENCE)).await?;
        Ok(response.bytes().await?.to_vec())
    }

    /// Downloads a file of any size to where it belongs, whole or not at all.
    pub async fn download_to(
        &self,
        route: Route,
        of: &str,
        query: &[(&str, String)],
        path: &Path,
    ) -> anyhow::Result<()> {
        let mut response = self.send(self.request(route, of, query)?).await?;
        let (mut file, mut bytes) = (file::Aside::create(path)?, 0);
        while let Some(part) = response.chunk().await.context("the download was cut off")? {
            file.write(&part)?;
            bytes += part.len();
        }
        file.keep()?;
        match self.format {
            Format::Table => say!("{bytes} bytes to {}", path.display()),
            format => output::whole(format, &json!({ "bytes": bytes, "file": path })),
        }
        Ok(())
    }

    /// Uploads a file of any size.
    pub async fn upload_from(
        &self,
        route: Route,
        path: &Path,
        media_type: &str,
        dry_run: bool,
    ) -> anyhow::Result<Value> {
        let file = tokio::fs::File::open(path).await.with_context(|| path.display().to_string())?;
        let request = self.request(route, "", &trying(dry_run))?.header(header::CONTENT_TYPE, media_type);
        Ok(self.send(request.body(file)).await?.json().await?)
    }

    /// Opens a stream of events.
    pub async fn watch(&self, query: &[(&str, String)], after: Option<u64>) -> anyhow::Result<Response> {
        let mut request = self.request(Route::WatchEvents, "", query)?;
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        self.send(request).await
    }

    /// Changes a part of what is there: what is not named must still be what was just read.
    pub async fn amend(
        &self,
        (show, set): (Route, Route),
        of: &str,
        terms: &Terms,
        amended: impl FnOnce(&Value) -> anyhow::Result<Value>,
    ) -> anyhow::Result<()> {
        let before = self.get(show, of, &[]).await?;
        let if_match = terms.if_match.clone().or_else(|| before["etag"].as_str().map(str::to_owned));
        let terms = Terms { if_match, ..terms.clone() };
        self.change(set, of, Body::Json(amended(&before)?), &terms).await
    }

    /// Changes something under terms, and says what came of it.
    pub async fn change(&self, route: Route, of: &str, body: Body, terms: &Terms) -> anyhow::Result<()> {
        let answer = self.order(route, of, body, terms, false).await?;
        output::changed(self.format, answer);
        Ok(())
    }

    /// The same, but only if it is not there yet.
    pub async fn create(&self, route: Route, of: &str, body: Body, terms: &Terms) -> anyhow::Result<()> {
        let there = |error: anyhow::Error| match error.downcast_ref::<Refused>() {
            Some(Refused(problem)) if problem.field.as_deref() == Some("If-None-Match") => {
                error.context(format!("there is a \"{of}\" already: `set` changes it"))
            }
            _ => error,
        };
        let answer = self.order(route, of, body, terms, true).await.map_err(there)?;
        output::changed(self.format, answer);
        Ok(())
    }

    /// Changes something under terms, perhaps only if it is not there yet: the answer, if there is one, and the new entity tag.
    pub async fn order(
        &self,
        route: Route,
        of: &str,
        body: Body,
        terms: &Terms,
        new: bool,
    ) -> anyhow::Result<(Value, Option<String>)> {
        let mut request = self.request(route, of, &trying(terms.dry_run))?.timeout(PATIENCE);
        if let Some(tag) = &terms.if_match {
            // The quotes belong to the tag, but a shell is happier without.
            let bare = tag.trim_matches('"');
            let tag = if bare == "*" { bare.to_owned() } else { format!("\"{bare}\"") };
            request = request.header(header::IF_MATCH, tag);
        }
        if new {
            request = request.header(header::IF_NONE_MATCH, "*");
        }
        let response = self.send(body.put_on(request)).await?;
        let tag = tag(&response);
        let text = response.text().await?;
        let answer = if text.is_empty() { Value::Null } else { serde_json::from_str(&text)? };
        Ok((answer, tag))
    }
}

fn trying(dry_run: bool) -> Vec<(&'static str, String)> {
    if dry_run { vec![("dry_run", "true".to_owned())] } else { Vec::new() }
}

fn tag(response: &Response) -> Option<String> {
    let tag = response.headers().get(header::ETAG)?.to_str().ok()?;
    Some(tag.trim_matches('"').to_owned())
}
