//! Processes that never outlive their test, a coordinator to ask questions, and the one place that waits.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::{self, Child, Command, ExitStatus, Output, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use reqwest::{Client, Method, RequestBuilder};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A token that is well formed but lets nobody in.
pub(crate) const TOKEN: &str = "the-token-of-the-whole-system-tests";

/// A token that no other coordinator has: while one is down another test's may get its port, and must not take its
/// agents.
fn unique_token() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{TOKEN}-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Far longer than anything takes, also on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_mins(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Asks until there is an answer; fails when there is still none after [`PATIENCE`].
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        thread::sleep(PAUSE);
    }
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The binary that was built with these tests, unless `SYSTEM_TEST_BINARY` names another.
pub(crate) fn binary() -> PathBuf {
    env::var_os("SYSTEM_TEST_BINARY").map_or(env!("CARGO_BIN_EXE_meanfield").into(), PathBuf::from)
}

/// Settings of whoever runs the tests are none of the tests'.
fn forget_settings(command: &mut Command) {
    for (key, _) in env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with("MEANFIELD_")) {
        command.env_remove(key);
    }
}

/// The blocks of shell commands in a document, with what is written behind `sh`.
pub(crate) fn blocks(document: &str) -> Vec<(&str, &str)> {
    let blocks = document.split("\n```sh").skip(1).map(|rest| rest.split_once("\n```").unwrap().0);
    blocks.map(|block| block.split_once('\n').unwrap()).map(|(mark, block)| (mark.trim(), block)).collect()
}

/// Whether what a line of a document needs is installed: curl is not everywhere.
pub(crate) fn can_run(line: &str) -> bool {
    !line.starts_with("curl ") || Command::new("curl").arg("--version").output().is_ok()
}

/// A shell in a directory, in which `meanfield` is the binary under test.
pub(crate) struct Shell {
    directory: PathBuf,
    path: String,
}

impl Shell {
    pub(crate) fn new(directory: &Path) -> Self {
        let programs = directory.join("bin");
        fs::create_dir(&programs).unwrap();
        std::os::unix::fs::symlink(binary(), programs.join("meanfield")).unwrap();
        let path = format!("{}:{}", programs.display(), env::var("PATH").unwrap_or_default());
        Self { directory: directory.to_owned(), path }
    }

    /// Runs commands with these environment variables and no other `MEANFIELD_*`, up to the first that fails.
    pub(crate) fn run(&self, script: &str, environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new("sh");
        forget_settings(&mut command);
        command.args(["-euc", script]).current_dir(&self.directory).env("PATH", &self.path);
        command.envs(environment.iter().copied()).output().unwrap()
    }

    /// What commands print, none of which may fail.
    #[track_caller]
    pub(crate) fn prints(&self, script: &str, environment: &[(&str, &str)]) -> String {
        let output = self.run(script, environment);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{script}\n{}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }
}

/// One process of the binary, in a directory of its own. Killed when dropped; a test that fails shows its log.
pub(crate) struct Process {
    name: String,
    child: Child,
    directory: TempDir,
}

impl Process {
    pub(crate) fn start<A: AsRef<str>>(arguments: &[A]) -> Self {
        Self::start_with(arguments, &[])
    }

    /// Starts with these environment variables and no other `MEANFIELD_*`.
    pub(crate) fn start_with<A: AsRef<str>>(arguments: &[A], environment: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().to_owned();
        Self::launch(directory, &place, arguments, environment)
    }

    /// Starts in a directory of the caller's.
    pub(crate) fn start_in<A: AsRef<str>>(place: &Path, arguments: &[A], environment: &[(&str, &str)]) -> Self {
        Self::launch(tempfile::tempdir().unwrap(), place, arguments, environment)
    }

    fn launch<A: AsRef<str>>(directory: TempDir, place: &Path, arguments: &[A], environment: &[(&str, &str)]) -> Self {
        let binary = binary();
        let file = |name| Stdio::from(fs::File::create(directory.path().join(name)).unwrap());
        let arguments: Vec<_> = arguments.iter().map(AsRef::as_ref).collect();
        let mut command = Command::new(&binary);
        forget_settings(&mut command);
        // The width of help texts.
        command.env_remove("COLUMNS");
        command.args(&arguments).envs(environment.iter().copied()).current_dir(place);
        command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr"));
        let child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
        Self { name: arguments.join(" "), child, directory }
    }

    /// All of standard output so far.
    pub(crate) fn output(&self) -> String {
        fs::read_to_string(self.directory.path().join("stdout")).unwrap()
    }

    /// All of standard error so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("stderr")).unwrap()
    }

    #[track_caller]
    pub(crate) fn logs(&self, text: &str) {
        eventually(&format!("`{}` logs {text:?}", self.name), || self.log().contains(text).then_some(()));
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// SIGKILL: no chance to say goodbye.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, then waits for the end.
    #[track_caller]
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        // The shell's own `kill`, since the standard library only knows SIGKILL.
        let kill = Command::new("sh").args(["-c", &format!("kill -TERM {}", self.child.id())]).status().unwrap();
        assert!(kill.success());
        self.wait()
    }

    /// Waits for the process to end by itself.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let what = format!("`{}` ends", self.name);
        eventually(&what, || self.child.try_wait().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- meanfield {}\n{}{}", self.name, self.output(), self.log());
        }
    }
}

/// An agent as the coordinator sees it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Member {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) epoch: u64,
    pub(crate) category: String,
    pub(crate) paused: bool,
    pub(crate) sequence: Option<u64>,
    pub(crate) local: Option<BTreeMap<String, f64>>,
    pub(crate) action: Option<BTreeMap<String, i64>>,
}

/// A client that waits for its answers.
pub(crate) struct Http {
    runtime: Runtime,
    client: Client,
    token: String,
}

impl Http {
    /// For what needs no token.
    pub(crate) fn new() -> Self {
        Self::with_token(TOKEN.to_owned())
    }

    fn with_token(token: String) -> Self {
        // Refused only if there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = Client::builder().no_proxy().tls_certs_only([]).timeout(PATIENCE).build().unwrap();
        Self { runtime, client, token }
    }

    pub(crate) fn request(&self, method: Method, url: &str) -> String {
        self.send(url, self.client.request(method, url))
    }

    fn send(&self, url: &str, request: RequestBuilder) -> String {
        let request = request.bearer_auth(&self.token);
        let answer = async { request.send().await?.error_for_status()?.text().await };
        self.runtime.block_on(answer).unwrap_or_else(|error| panic!("{url}: {error}"))
    }
}

/// A coordinator process and a client of its API.
pub(crate) struct Coordinator {
    pub(crate) process: Process,
    address: String,
    http: Http,
}

impl Coordinator {
    /// Starts one on a free port.
    pub(crate) fn start(data: &Path, flags: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", unique_token(), data, flags)
    }

    /// Starts another where this one was, with the same token.
    pub(crate) fn restart(self, data: &Path, flags: &[&str]) -> Self {
        Self::start_at(&self.address, self.http.token, data, flags)
    }

    fn start_at(listen: &str, token: String, data: &Path, flags: &[&str]) -> Self {
        let data = data.to_str().unwrap();
        let arguments = [&["coordinator", "--listen", listen, "--data-dir", data], flags].concat();
        let process = Process::start_with(&arguments, &[("MEANFIELD_TOKEN", &token)]);
        let address = address(&process);
        Self { process, address, http: Http::with_token(token) }
    }

    /// The text of something.
    pub(crate) fn text(&self, path: &str) -> String {
        self.request(Method::GET, path)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn token(&self) -> &str {
        &self.http.token
    }

    /// An agent of this coordinator that steps twenty times a second.
    pub(crate) fn agent(&self, flags: &[&str]) -> Process {
        self.agent_every("50ms", flags)
    }

    /// An agent of this coordinator, and how often it steps.
    pub(crate) fn agent_every(&self, interval: &str, flags: &[&str]) -> Process {
        let url = self.url();
        let arguments = [&["agent", "--coordinator", &url, "--interval", interval], flags].concat();
        Process::start_with(&arguments, &[("MEANFIELD_TOKEN", &self.http.token)])
    }

    fn request(&self, method: Method, path: &str) -> String {
        self.http.request(method, &format!("{}{path}", self.url()))
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> T {
        serde_json::from_str(&self.request(Method::GET, path)).unwrap()
    }

    /// Status and text of any answer, also of a refusal.
    pub(crate) fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, String) {
        let url = format!("{}{path}", self.url());
        let mut request = self.http.client.request(method, &url).bearer_auth(&self.http.token);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = async {
            let response = request.send().await?;
            Ok::<_, reqwest::Error>((response.status().as_u16(), response.text().await?))
        };
        self.http.runtime.block_on(answer).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    pub(crate) fn post(&self, path: &str) {
        self.request(Method::POST, path);
    }

    pub(crate) fn delete(&self, path: &str) {
        self.request(Method::DELETE, path);
    }

    /// Puts a file somewhere.
    pub(crate) fn put(&self, path: &str, file: Vec<u8>) {
        self.upload(Method::PUT, path, file);
    }

    /// Sends a file.
    pub(crate) fn upload(&self, method: Method, path: &str, file: Vec<u8>) {
        let url = format!("{}{path}", self.url());
        let request =
            self.http.client.request(method, &url).header("content-type", "application/octet-stream").body(file);
        self.http.send(&url, request);
    }

    /// Sends an order.
    pub(crate) fn order(&self, method: Method, path: &str, body: &Value) {
        let url = format!("{}{path}", self.url());
        self.http.send(&url, self.http.client.request(method, &url).json(body));
    }

    pub(crate) fn metrics(&self) -> String {
        self.request(Method::GET, "/metrics")
    }

    /// All members by name.
    pub(crate) fn members(&self) -> BTreeMap<String, Member> {
        let mut page: Value = self.get("/v1/agents");
        let members: Vec<Member> = serde_json::from_value(page["agents"].take()).unwrap();
        members.into_iter().map(|member| (member.name.clone(), member)).collect()
    }

    pub(crate) fn member(&self, name: &str) -> Option<Member> {
        self.members().remove(name)
    }

    /// How many agents the mean field of the default pool is made of.
    pub(crate) fn mean_field_count(&self) -> u64 {
        self.get::<Value>("/v1/pools/default")["mean_field"]["count"].as_u64().unwrap()
    }

    /// Waits until exactly these agents are members, have each reported up to `sequence` or further, and count in
    /// the mean field.
    #[track_caller]
    pub(crate) fn await_members(&self, names: &[&str], sequence: u64) -> BTreeMap<String, Member> {
        eventually(&format!("{names:?} are members and have sent heartbeat {sequence}"), || {
            let members = self.members();
            let reported = members.values().all(|member| member.sequence >= Some(sequence));
            let here = members.len() == names.len() && names.iter().all(|name| members.contains_key(*name));
            (here && reported && self.mean_field_count() == names.len() as u64).then_some(members)
        })
    }
}

/// The address that a coordinator prints.
#[track_caller]
pub(crate) fn address(process: &Process) -> String {
    eventually("a coordinator prints its address", || {
        let output = process.output();
        let line = output.strip_suffix('\n')?;
        let address = line.strip_prefix("https://").or_else(|| line.strip_prefix("http://"));
        Some(address.unwrap_or_else(|| panic!("{line:?} is not a URL")).to_owned())
    })
}
