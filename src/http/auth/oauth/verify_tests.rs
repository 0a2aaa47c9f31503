//! Tokens that hold, and every way in which one does not.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::key_set::KeySet;
use super::settings::{KeySource, OauthSettings, Scopes};
use super::test_issuer::{Signer, by_secret, unsigned};
use super::verify::{Grant, Unverified};
use crate::http::auth::denied::BadToken;
use crate::http::auth::moment::Moment;
use crate::ids::Tenant;
use crate::yard::Role;

fn rules() -> OauthSettings {
    OauthSettings {
        issuer: "https://id.example".into(),
        resource: None,
        audience: "https://yard.example/mcp".into(),
        keys: KeySource::Issuer,
        refresh: Duration::from_secs(300),
        tenant_claim: "sub".into(),
        tenants: HashMap::new(),
        scopes: Scopes { read: "y:read".into(), run: "y:run".into(), admin: "y:admin".into() },
        leeway: Duration::from_secs(30),
        scheme: "http",
        path: "/mcp".into(),
    }
}

fn seconds_from_now(seconds: i64) -> u64 {
    jsonwebtoken::get_current_timestamp().checked_add_signed(seconds).unwrap()
}

fn claims() -> Value {
    json!({
        "iss": "https://id.example",
        "aud": "https://yard.example/mcp",
        "sub": "oauth-alice",
        "exp": seconds_from_now(600),
        "scope": "openid y:run",
    })
}

fn keys(published: &[Value]) -> KeySet {
    KeySet::parse(json!({ "keys": published }).to_string().as_bytes()).unwrap()
}

fn verify(token: &str, keys: &KeySet, rules: &OauthSettings) -> Result<Grant, BadToken> {
    super::signatures::install();
    Unverified::read(token)?.verify(keys, rules)
}

/// What comes of a good token after `change`.
fn after(
    change: impl FnOnce(&mut Value, &mut Value, &mut OauthSettings),
) -> Result<Grant, BadToken> {
    let signer = Signer::p256();
    let (mut head, mut claims, mut rules) =
        (json!({"alg": "ES256", "kid": "a"}), claims(), rules());
    change(&mut head, &mut claims, &mut rules);
    verify(&signer.token(&head, &claims), &keys(&[signer.published("a")]), &rules)
}

#[test]
fn every_accepted_algorithm_holds() {
    let table = [
        (Signer::rsa(), &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"][..]),
        (Signer::p256(), &["ES256"]),
        (Signer::p384(), &["ES384"]),
        (Signer::ed(), &["EdDSA"]),
    ];
    for (signer, algorithms) in table {
        let keys = keys(&[signer.published("a")]);
        for algorithm in algorithms {
            let token =
                signer.token(&json!({"alg": algorithm, "kid": "a", "typ": "at+jwt"}), &claims());
            let grant = verify(&token, &keys, &rules()).unwrap();
            assert_eq!(grant.tenant, Tenant::named("oauth-alice").unwrap(), "{algorithm}");
            assert_eq!(grant.role, Some(Role::Run));
        }
    }
}

#[test]
fn nothing_but_a_public_key_can_sign() {
    let signer = Signer::rsa();
    let published = signer.published("a");
    let secret = published["n"].as_str().unwrap().as_bytes();
    let head = |algorithm: &str| json!({"alg": algorithm, "kid": "a"});
    let keys = keys(std::slice::from_ref(&published));
    let check = |token: &str, expected| {
        assert_eq!(verify(token, &keys, &rules()), Err(expected), "{token}");
    };
    check(&format!("{}.", unsigned(&head("none"), &claims())), BadToken::Unreadable);
    check(&format!("{}.", unsigned(&head("None"), &claims())), BadToken::Unreadable);
    check(&by_secret(secret, &head("HS256"), &claims()), BadToken::Algorithm);
    // The algorithm of another kind of key, under the name of this one.
    check(&Signer::p256().token(&head("ES256"), &claims()), BadToken::Key);
    let oct = json!({"kty": "oct", "kid": "s", "k": "c2VjcmV0", "alg": "HS256"});
    assert!(KeySet::parse(json!({"keys": [oct]}).to_string().as_bytes()).is_err());
}

#[test]
fn a_token_of_another_key_or_a_changed_one_does_not_hold() {
    let [ours, other] = [Signer::p256(), Signer::p256()];
    let keys = keys(&[ours.published("a")]);
    let head = json!({"alg": "ES256", "kid": "a"});
    assert_eq!(verify(&other.token(&head, &claims()), &keys, &rules()), Err(BadToken::Signature));
    let unknown = ours.token(&json!({"alg": "ES256", "kid": "b"}), &claims());
    assert!(!Unverified::read(&unknown).unwrap().is_known(&keys));
    assert_eq!(verify(&unknown, &keys, &rules()), Err(BadToken::Key));
    let token = ours.token(&head, &claims());
    let (message, signature) = token.rsplit_once('.').unwrap();
    let mut better = claims();
    better["scope"] = json!("y:admin");
    let forged = format!("{}.{signature}", unsigned(&head, &better));
    assert_eq!(verify(&forged, &keys, &rules()), Err(BadToken::Signature));
    assert_eq!(verify(&format!("{message}."), &keys, &rules()), Err(BadToken::Signature));
    for odd in ["", "x", "a.b", "a.b.c", "a.b.c.d", "....", &token.replace('.', "")] {
        assert!(verify(odd, &keys, &rules()).is_err(), "{odd}");
    }
}

#[test]
fn a_token_without_a_key_name_is_tried_with_all_keys_that_fit() {
    let [first, second, third] = [Signer::p256(), Signer::p256(), Signer::p256()];
    let keys = keys(&[Signer::rsa().published("r"), first.published("a"), second.published("b")]);
    let head = json!({"alg": "ES256"});
    assert!(verify(&second.token(&head, &claims()), &keys, &rules()).is_ok());
    assert_eq!(verify(&third.token(&head, &claims()), &keys, &rules()), Err(BadToken::Signature));
}

#[test]
fn keys_for_something_else_are_not_used() {
    let signer = Signer::rsa();
    let token = signer.token(&json!({"alg": "RS256", "kid": "a"}), &claims());
    for (field, value, fits) in [
        ("use", "sig", true),
        ("use", "enc", false),
        ("alg", "RS256", true),
        ("alg", "PS256", false),
    ] {
        let mut published = signer.published("a");
        published[field] = json!(value);
        let keys = keys(&[published, json!({"kty": "new"}), Signer::ed().published("e")]);
        assert_eq!(verify(&token, &keys, &rules()).is_ok(), fits, "{field} {value}");
    }
}

#[test]
fn every_claim_that_must_hold_is_checked() {
    let claim = |name: &str| BadToken::Claim { claim: name.to_owned() };
    let gone = Value::Null;
    for (name, value, expected) in [
        ("iss", json!("https://id.example/"), BadToken::Issuer),
        ("iss", json!(["https://id.example"]), BadToken::Issuer),
        ("iss", json!(7), claim("iss")),
        ("iss", gone.clone(), claim("iss")),
        ("aud", json!("https://other.example/mcp"), BadToken::Audience),
        ("aud", json!(["https://other.example/mcp", "x"]), BadToken::Audience),
        ("aud", json!([]), BadToken::Audience),
        ("aud", json!(7), claim("aud")),
        ("aud", gone.clone(), claim("aud")),
        ("exp", json!("2099"), claim("exp")),
        ("exp", json!(-1), claim("exp")),
        ("exp", gone.clone(), claim("exp")),
        ("nbf", json!(seconds_from_now(60)), BadToken::NotYet),
        ("nbf", json!("soon"), claim("nbf")),
        ("sub", gone.clone(), claim("sub")),
        ("sub", json!(["oauth-alice"]), BadToken::Unreadable),
        ("sub", json!(7), claim("sub")),
        ("sub", json!("local"), BadToken::Stranger),
        ("scope", json!(["y:run"]), claim("scope")),
        ("scope", json!(7), claim("scope")),
    ] {
        let answer = after(|_, claims, _| claims[name] = value.clone());
        assert_eq!(answer, Err(expected), "{name} = {value}");
    }
    let odd = after(|_, claims, _| claims["sub"] = json!("a b"));
    assert!(matches!(odd, Err(BadToken::Tenant(_))), "{odd:?}");
    let over = after(|_, claims, _| claims["exp"] = json!(1_000_000_000));
    assert_eq!(over, Err(BadToken::Expired { at: Moment::from_unix(1_000_000_000) }));
    assert_eq!(after(|_, claims, _| *claims = json!(["no", "object"])), Err(BadToken::Unreadable));
}

#[test]
fn clocks_may_differ_by_the_leeway_and_no_more() {
    let exp = seconds_from_now(-10);
    let grant = after(|_, claims, _| claims["exp"] = json!(exp)).unwrap();
    assert_eq!(grant.until, Moment::from_unix(exp + 30));
    assert!(after(|_, claims, _| claims["nbf"] = json!(seconds_from_now(10))).is_ok());
    let strict = after(|_, claims, rules| {
        claims["exp"] = json!(exp);
        rules.leeway = Duration::ZERO;
    });
    assert!(matches!(strict, Err(BadToken::Expired { .. })), "{strict:?}");
    assert!(after(|_, claims, _| claims["exp"] = json!(exp as f64 + 600.5)).is_ok());
}

#[test]
fn only_access_tokens_whose_head_is_understood_are_read() {
    for typ in ["JWT", "jwt", "at+jwt", "application/at+jwt"] {
        assert!(after(|head, _, _| head["typ"] = json!(typ)).is_ok(), "{typ}");
    }
    for (field, value) in
        [("typ", json!("logout+jwt")), ("typ", json!("dpop+jwt")), ("crit", json!(["exp"]))]
    {
        let answer = after(|head, _, _| head[field] = value.clone());
        assert_eq!(answer, Err(BadToken::Unreadable), "{field} = {value}");
    }
}

#[test]
fn the_highest_scope_is_the_role() {
    for (scopes, role) in [
        ("y:read", Some(Role::Read)),
        ("y:run y:read", Some(Role::Run)),
        ("y:read  y:admin", Some(Role::Admin)),
        ("openid y:runs xy:run Y:RUN", None),
        ("", None),
    ] {
        let grant = after(|_, claims, _| claims["scope"] = json!(scopes)).unwrap();
        assert_eq!(grant.role, role, "{scopes}");
        let listed = after(|_, claims, _| {
            claims.as_object_mut().unwrap().remove("scope");
            claims["scp"] = json!(scopes.split(' ').collect::<Vec<_>>());
        });
        assert_eq!(listed.unwrap().role, role, "{scopes}");
    }
}

#[test]
fn a_tenant_is_the_claim_or_what_the_map_makes_of_it() {
    let named = |name: &str| Tenant::named(name).unwrap();
    let map = || {
        HashMap::from([("u=1".to_owned(), named("oauth-one")), ("me".to_owned(), Tenant::LOCAL)])
    };
    for (value, expected) in [
        ("u=1", Ok(named("oauth-one"))),
        ("me", Ok(Tenant::LOCAL)),
        ("local", Err(BadToken::Stranger)),
        ("oauth-one", Err(BadToken::Stranger)),
    ] {
        let answer = after(|_, claims, rules| {
            claims["org"] = json!(value);
            rules.tenant_claim = "org".into();
            rules.tenants = map();
        });
        assert_eq!(answer.map(|grant| grant.tenant), expected, "{value}");
    }
    let listed = after(|_, claims, rules| {
        claims["org"] = json!(["me"]);
        rules.tenant_claim = "org".into();
        rules.tenants = map();
    });
    assert_eq!(listed, Err(BadToken::Claim { claim: "org".into() }));
}
