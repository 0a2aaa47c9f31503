//! Bob, a tenant who tries everything over every transport and records the responses.

use serde_json::{Value, json};
use shellyard::http::Route;
use shellyard::mcp::{self, Eras};

use super::alice::{AttackTargets, PROGRESS, REQUEST};
use super::attempts::{self, HTTP_METHODS};
use super::coverage::Names;
use super::observation::{Observation, answer_to, masked};
use super::world::{LEGACY, TenantServer, TenantSession};
use crate::harness::{Era, HttpRequest, Launch, TestServer};

/// The status of a route for an unsupported HTTP method.
const NO_SUCH_METHOD: u16 = 405;

/// A way to reach the MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum McpAccess {
    Modern,
    Legacy,
    /// JSON lines after an upgrade, as `stdio --connect` speaks them.
    Lines,
}

impl McpAccess {
    pub(super) const ALL: [Self; 3] = [Self::Modern, Self::Legacy, Self::Lines];

    /// `true` if a method of these eras exists on this transport.
    fn has(self, eras: Eras) -> bool {
        match eras {
            Eras::Both => true,
            Eras::Modern => self == Self::Modern,
            Eras::Legacy => self != Self::Modern,
        }
    }

    /// The name of a method in the coverage list.
    pub(super) fn thing(self, method: &str) -> String {
        format!("{self:?} {method}")
    }
}

/// Returns every MCP method on each transport that has it.
pub(super) fn methods() -> Names {
    let at = |access: McpAccess| {
        mcp::list_methods()
            .filter(move |(_, eras)| access.has(*eras))
            .map(move |(name, _)| access.thing(name))
    };
    McpAccess::ALL.into_iter().flat_map(at).collect()
}

/// Bob and the responses that he got.
pub(super) struct Bob {
    address: String,
    roots: [String; 2],
    client: TenantSession,
    proxy: TestServer,
    pub(super) observations: Vec<Observation>,
    /// The tools, methods and routes that he has used.
    pub(super) done: Names,
}

impl Bob {
    #[track_caller]
    pub(super) fn in_world(world: &mut TenantServer) -> Self {
        let client = world.client("bob");
        let address = world.address();
        let url = format!("http://{address}");
        let proxy =
            Launch::stdio().args(&["--connect", &url]).env("SHELLYARD_TOKEN", &client.token);
        let proxy = proxy.start();
        let roots =
            [&world.server, &proxy].map(|server| server.sandbox().path().display().to_string());
        let (observations, done) = (Vec::new(), Names::new());
        Self { address, roots, client, proxy, observations, done }
    }

    /// Tries every tool, method and route.
    #[track_caller]
    pub(super) fn try_everything(&mut self, targets: &AttackTargets) {
        for access in McpAccess::ALL {
            for (tool, arguments) in attempts::calls(targets) {
                self.done.insert(format!("tool {tool}"));
                self.rpc(access, "tools/call", json!({"name": tool, "arguments": arguments}));
            }
            for (method, params) in attempts::requests(targets) {
                if methods().contains(&access.thing(method)) {
                    self.done.insert(access.thing(method));
                    self.rpc(access, method, params);
                }
            }
            for (method, params) in attempts::notices() {
                self.notify(access, method, params);
            }
        }
        for route in Route::ALL {
            for method in HTTP_METHODS {
                self.http(route, method, targets);
            }
        }
        let heard = self.proxy.stdio().take_all().into_iter();
        // Progress depends on the time that a call takes.
        let news = heard.filter(|notice| notice["method"] != "notifications/progress");
        let observations =
            news.map(|it| Observation { attempt: "heard".to_owned(), answer: it.to_string() });
        self.observations.extend(observations);
    }

    /// The tools that he is offered.
    #[track_caller]
    pub(super) fn tools(&mut self) -> Names {
        let listed = self.client.rpc("tools/list", json!({}));
        let tools = listed["result"]["tools"].as_array().expect("a list");
        tools
            .iter()
            .map(|tool| format!("tool {}", tool["name"].as_str().expect("a name")))
            .collect()
    }

    /// Every route with each method that it knows, whether he may use it or not.
    #[track_caller]
    pub(super) fn routes(&self) -> Names {
        let all = Route::ALL
            .into_iter()
            .flat_map(|route| HTTP_METHODS.map(|it| (it, route.path("/mcp"))));
        let is_known = |(method, path): &(&'static str, String)| {
            let request = HttpRequest { method, ..HttpRequest::get(&path.replace("{id}", "1")) };
            answer_to(&self.address, &self.with_token(request)).0 != NO_SUCH_METHOD
        };
        all.filter(is_known).map(|(method, path)| format!("{method} {path}")).collect()
    }

    /// Sends a request with alice's own id and progress token, which bob may use as well.
    #[track_caller]
    fn rpc(&mut self, access: McpAccess, method: &str, mut params: Value) {
        params["_meta"]["progressToken"] = PROGRESS.into();
        let attempt = format!("{access:?} {method} {params}");
        let answer = match access {
            McpAccess::Modern => {
                self.send(&self.modern(&Era::Modern.request(REQUEST, method, params)))
            }
            McpAccess::Legacy if method == "initialize" => {
                let message = LEGACY.request(REQUEST, method, params);
                self.send(&self.with_token(HttpRequest::post("/mcp", &message)))
            }
            McpAccess::Legacy => {
                self.send(&self.client.link.request(&LEGACY.request(REQUEST, method, params)))
            }
            McpAccess::Lines => {
                let mut answer = self.proxy.rpc(method, params);
                answer["id"] = REQUEST.into();
                masked(&answer.to_string(), &self.roots)
            }
        };
        self.observations.push(Observation { attempt, answer });
    }

    #[track_caller]
    fn notify(&mut self, access: McpAccess, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        let attempt = format!("{access:?} {message}");
        let answer = match access {
            McpAccess::Modern => self.send(&self.modern(&message)),
            McpAccess::Legacy => self.send(&self.client.link.request(&message)),
            McpAccess::Lines => {
                self.proxy.notify(method, message["params"].clone());
                String::new()
            }
        };
        self.observations.push(Observation { attempt, answer });
    }

    #[track_caller]
    fn http(&mut self, route: Route, method: &'static str, targets: &AttackTargets) {
        for request in attempts::http(route, method, targets) {
            let request = self.with_token(request);
            let (status, answer) = answer_to(&self.address, &request);
            if status != NO_SUCH_METHOD {
                self.done.insert(format!("{method} {}", route.path("/mcp")));
            }
            let attempt = format!("{method} {} {:?}", request.path, request.body);
            self.observations.push(Observation { attempt, answer: masked(&answer, &self.roots) });
        }
    }

    fn modern(&self, message: &Value) -> HttpRequest {
        let mut request = HttpRequest::post("/mcp", message);
        request.headers.extend(Era::Modern.headers(message));
        self.with_token(request)
    }

    fn with_token(&self, request: HttpRequest) -> HttpRequest {
        request.header("Authorization", &format!("Bearer {}", self.client.token))
    }

    #[track_caller]
    fn send(&self, request: &HttpRequest) -> String {
        masked(&answer_to(&self.address, request).1, &self.roots)
    }
}
