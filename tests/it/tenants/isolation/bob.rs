//! A tenant who tries everything, through every door, and takes down what he gets.

use serde_json::{Value, json};
use shellyard::http::Route;
use shellyard::mcp::{self, Eras};

use super::alice::{Aims, PROGRESS, REQUEST};
use super::coverage::Names;
use super::deeds::{self, HTTP_METHODS};
use super::seen::{Seen, answer_to, masked};
use super::world::{Client, LEGACY, World};
use crate::harness::{Era, Launch, Request, Yard};

/// What is answered where a route does not know a method of HTTP.
const NO_SUCH_METHOD: u16 = 405;

/// A way to speak MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    Modern,
    Legacy,
    /// JSON lines after an upgrade, as `stdio --connect` speaks them.
    Lines,
}

impl Door {
    pub(super) const ALL: [Self; 3] = [Self::Modern, Self::Legacy, Self::Lines];

    /// Whether a method of these eras exists behind it.
    fn has(self, eras: Eras) -> bool {
        match eras {
            Eras::Both => true,
            Eras::Modern => self == Self::Modern,
            Eras::Legacy => self != Self::Modern,
        }
    }

    /// What a method is called in a list of things to do.
    pub(super) fn thing(self, method: &str) -> String {
        format!("{self:?} {method}")
    }
}

/// Everything that speaks MCP, through each door where it exists.
pub(super) fn methods() -> Names {
    let at = |door: Door| {
        mcp::methods()
            .filter(move |(_, eras)| door.has(*eras))
            .map(move |(name, _)| door.thing(name))
    };
    Door::ALL.into_iter().flat_map(at).collect()
}

/// Bob, and what he has seen.
pub(super) struct Bob {
    address: String,
    roots: [String; 2],
    client: Client,
    proxy: Yard,
    pub(super) seen: Vec<Seen>,
    /// What he did something with.
    pub(super) done: Names,
}

impl Bob {
    #[track_caller]
    pub(super) fn in_world(world: &mut World) -> Self {
        let client = world.client("bob");
        let address = world.address();
        let url = format!("http://{address}");
        let proxy =
            Launch::stdio().args(&["--connect", &url]).env("SHELLYARD_TOKEN", &client.token);
        let proxy = proxy.start();
        let roots = [&world.server, &proxy].map(|yard| yard.sandbox().path().display().to_string());
        let (seen, done) = (Vec::new(), Names::new());
        Self { address, roots, client, proxy, seen, done }
    }

    /// Does everything.
    #[track_caller]
    pub(super) fn try_everything(&mut self, aims: &Aims) {
        for door in Door::ALL {
            for (tool, arguments) in deeds::calls(aims) {
                self.done.insert(format!("tool {tool}"));
                self.rpc(door, "tools/call", json!({"name": tool, "arguments": arguments}));
            }
            for (method, params) in deeds::requests(aims) {
                if methods().contains(&door.thing(method)) {
                    self.done.insert(door.thing(method));
                    self.rpc(door, method, params);
                }
            }
            for (method, params) in deeds::notices() {
                self.notify(door, method, params);
            }
        }
        for route in Route::ALL {
            for method in HTTP_METHODS {
                self.http(route, method, aims);
            }
        }
        let heard = self.proxy.stdio().take_all().into_iter();
        // That a call takes a while is told by the clock.
        let news = heard.filter(|notice| notice["method"] != "notifications/progress");
        let seen = news.map(|it| Seen { deed: "heard".to_owned(), answer: it.to_string() });
        self.seen.extend(seen);
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
            let request = Request { method, ..Request::get(&path.replace("{id}", "1")) };
            answer_to(&self.address, &self.with_token(request)).0 != NO_SUCH_METHOD
        };
        all.filter(is_known).map(|(method, path)| format!("{method} {path}")).collect()
    }

    /// A request with alice's own id and progress token, which are his as much as hers.
    #[track_caller]
    fn rpc(&mut self, door: Door, method: &str, mut params: Value) {
        params["_meta"]["progressToken"] = PROGRESS.into();
        let deed = format!("{door:?} {method} {params}");
        let answer = match door {
            Door::Modern => self.send(&self.modern(&Era::Modern.request(REQUEST, method, params))),
            Door::Legacy if method == "initialize" => {
                let message = LEGACY.request(REQUEST, method, params);
                self.send(&self.with_token(Request::post("/mcp", &message)))
            }
            Door::Legacy => {
                self.send(&self.client.link.request(&LEGACY.request(REQUEST, method, params)))
            }
            Door::Lines => {
                let mut answer = self.proxy.rpc(method, params);
                answer["id"] = REQUEST.into();
                masked(&answer.to_string(), &self.roots)
            }
        };
        self.seen.push(Seen { deed, answer });
    }

    #[track_caller]
    fn notify(&mut self, door: Door, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        let deed = format!("{door:?} {message}");
        let answer = match door {
            Door::Modern => self.send(&self.modern(&message)),
            Door::Legacy => self.send(&self.client.link.request(&message)),
            Door::Lines => {
                self.proxy.notify(method, message["params"].clone());
                String::new()
            }
        };
        self.seen.push(Seen { deed, answer });
    }

    #[track_caller]
    fn http(&mut self, route: Route, method: &'static str, aims: &Aims) {
        for request in deeds::http(route, method, aims) {
            let request = self.with_token(request);
            let (status, answer) = answer_to(&self.address, &request);
            if status != NO_SUCH_METHOD {
                self.done.insert(format!("{method} {}", route.path("/mcp")));
            }
            let deed = format!("{method} {} {:?}", request.path, request.body);
            self.seen.push(Seen { deed, answer: masked(&answer, &self.roots) });
        }
    }

    fn modern(&self, message: &Value) -> Request {
        let mut request = Request::post("/mcp", message);
        request.headers.extend(Era::Modern.headers(message));
        self.with_token(request)
    }

    fn with_token(&self, request: Request) -> Request {
        request.header("Authorization", &format!("Bearer {}", self.client.token))
    }

    #[track_caller]
    fn send(&self, request: &Request) -> String {
        masked(&answer_to(&self.address, request).1, &self.roots)
    }
}
