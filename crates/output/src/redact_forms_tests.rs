//! Every known form: a line in which the secret alone is masked, and lines that stay as they are.

use super::*;

/// One form: what stands before the secret, the secret, what stands behind it, and a near miss.
struct Case {
    before: &'static str,
    secret: String,
    after: &'static str,
    near_miss: &'static str,
}

fn case(
    before: &'static str,
    secret: impl Into<String>,
    after: &'static str,
    near_miss: &'static str,
) -> Case {
    Case { before, secret: secret.into(), after, near_miss }
}

/// A secret is put together here, so that no scanner takes this file for a leak.
fn filled(prefix: &str, alphabet: &str, length: usize) -> String {
    let letters = alphabet.chars().cycle().skip(1).step_by(5).take(length);
    prefix.chars().chain(letters).collect()
}

/// Letters and digits.
fn mixed(prefix: &str, length: usize) -> String {
    filled(prefix, "a1B2c3D4e5F6g7H8i9J0kLmNoPqRs", length)
}

fn hex(prefix: &str, length: usize) -> String {
    filled(prefix, "0123456789abcdef", length)
}

fn capitals(prefix: &str, length: usize) -> String {
    filled(prefix, "A1B2C3D4E5F6G7H8I9", length)
}

/// Tokens that are known by their own text.
fn tokens() -> Vec<Case> {
    let jwt = mixed("eyJ", 20);
    vec![
        case("token: ", mixed("sy_", 43), "", "sy_load sy_config_file"),
        case("a ", mixed("ghp_", 36), " b", "ghp_short"),
        case("a ", mixed("gho_", 36), ",", "gho_"),
        case("a ", mixed("ghs_", 36), ".", "ghs_x"),
        case("a ", mixed("ghu_", 36), "", "ghu_1"),
        case("a ", mixed("ghr_", 36), "", "bghr_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        case("", mixed("github_pat_", 40), " x", "github_pat_name"),
        case("", mixed("glpat-", 20), "", "glpat-name"),
        case("", mixed("glrt-", 20), "", "glrt-x"),
        case("id ", capitals("AKIA", 16), "", "AKIAB"),
        case("", mixed("xoxb-", 24), "", "xoxb-1"),
        case("", mixed("xapp-1-", 24), "", "xapp-name-of-a-program"),
        case(
            "https://hooks.slack.com/services/",
            capitals("T", 30),
            "",
            "hooks.slack.com/services/",
        ),
        case("https://discord.com/api/webhooks/12345/", mixed("", 68), "", "/api/webhooks/12345/x"),
        case("", mixed("sk-ant-api03-", 40), "", "sk-ant-x"),
        case("", mixed("sk-proj-", 40), "", "sk-project"),
        case("", mixed("sk-", 48), "", "task-aaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        case("", mixed("gsk_", 52), "", "gsk_widget_new"),
        case("", mixed("sk_live_", 24), "", "sk_live_x"),
        case("", mixed("rk_live_", 24), "", "rk_live_"),
        case("", mixed("whsec_", 32), "", "whsec_x"),
        case("", mixed("AIza", 35), "", "AIzaB"),
        case("", mixed("ya29.", 40), "", "ya29.x"),
        case("", mixed("GOCSPX-", 28), "", "GOCSPX-x"),
        case("", mixed("npm_", 36), "", "npm_config_registry npm_package_version"),
        case("", mixed("pypi-AgEI", 60), "", "pypi-server"),
        case("", mixed("hf_", 34), "", "hf_hub_download hf_home"),
        case("", format!("{}.{}", mixed("SG.", 22), mixed("", 43)), "", "SG.x.y"),
        case("", format!("{jwt}.{jwt}.{jwt}"), "", "eyJ.a.b"),
        case("", mixed("hvs.", 24), "", "hvs.rs"),
        case("", mixed("hvb.", 24), "", "hvb.x"),
        case("", hex("dop_v1_", 64), "", "dop_v1_x"),
        case("", mixed("dckr_pat_", 27), "", "dckr_pat_x"),
        case("", hex("SK", 32), "", "SK1 SKIP ACCESS ACdeadbeef"),
        case("sid ", hex("AC", 32), "", "AC"),
        case("", hex("key-", 32), "", "key-value key-0123abcd"),
        case("", hex("shpat_", 32), "", "shpat_x"),
        case("", mixed("ATATT3", 80), "", "ATATT"),
        case("", mixed("lin_api_", 40), "", "lin_api_url"),
        case("", mixed("glsa_", 41), "", "glsa_x"),
        case("", hex("dapi", 32), "", "dapi-server"),
        case("12345678:", mixed("AA", 33), "", "12:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        case(
            "",
            "-----BEGIN EC PRIVATE KEY----- x -----END EC PRIVATE KEY-----",
            "",
            "-----BEGIN CERTIFICATE-----",
        ),
    ]
}

/// Keys of cloud accounts that are known by their names.
fn cloud_keys() -> Vec<Case> {
    let aws = format!("{}/{}", mixed("w", 19), mixed("", 19));
    let azure = format!("{}==", mixed("", 86));
    vec![
        case("aws_secret_access_key=", aws.clone(), "", "aws_secret_access_key=$SECRET"),
        case(
            "aws_secret_access_key = ",
            aws.clone(),
            "",
            "aws_secret_access_key = load_secret_from_env1()",
        ),
        case("AWS_SECRET_ACCESS_KEY=", aws.clone(), " aws s3 ls", "AWS_SECRET_ACCESS_KEY= aws"),
        case("  \"SecretAccessKey\": \"", aws, "\",", "\"SecretAccessKey\": \"string\","),
        case(
            "\"SessionToken\": \"",
            mixed("", 60),
            "\"",
            "session_token = session.token_v2_current_1",
        ),
        case("AccountName=a;AccountKey=", azure, ";EndpointSuffix=x", "AccountKey=...;"),
        case("SharedAccessKey=", format!("{}=", mixed("", 43)), "", "SharedAccessKey=<key>"),
    ]
}

/// Passwords that are known by what stands around them.
fn passwords() -> Vec<Case> {
    vec![
        case(
            "password=",
            "hunter2",
            "",
            "password=$1 password=\"$PW\" password=${PW} password=$(cat f)",
        ),
        case("password=", "correcthorse", " next", "password=None, password=getpass()"),
        case("db.connect(password='", "hunter2", "')", "db.connect(password=password, passwd=pw)"),
        case("PGPASSWORD=", "hunter2", " psql", "PWD=/home/me OLDPWD=/srv"),
        case("PASSWORD=\"", "hunter2", "\"", "password = getpass()"),
        case("password = \"", "hunter2", "\"  # for now", "password = args.password"),
        case("password = ", "hunter2", "", "password = input1 + salt"),
        case("passwd=", "s3cret!", "&x=1", "password_hash=0a1b2c3d4e password_file=/run/x"),
        case("Server=x;Uid=y;Pwd=", "hunter2", ";", "pwd=$(pwd) pwd=/srv/app"),
        case("password: ", "hunter2", "", "password: String, password: &str) password: str = None"),
        case(
            "  \"password\": \"",
            "hunter2",
            "\",",
            "\"password\": \"Passwort\", \"password\": \"string\"",
        ),
        case("{\\\"password\\\":\\\"", "hunter2", "\\\"}", "{\\\"password\\\":\\\"\\\"}"),
        case("password => '", "hunter2", "',", "if password == other1: password != x1"),
        case("--password=", "hunter2", " x", "--password-file=/run/x1 --password-stdin"),
        case("--password ", "hunter2", " x", "--password-file secret1.txt --password PASSWORD"),
        case("passphrase: \"", "hunter2", "\"", "passphrase: \"Enter your passphrase 2 times\""),
    ]
}

/// Keys, tokens and passwords in headers, settings, files and commands.
fn in_places() -> Vec<Case> {
    vec![
        case("x-api-key: ", mixed("", 32), "", "x-api-key: $KEY"),
        case("X-Api-Key: ", hex("", 32), "\"", "X-Api-Key: YOUR_API_KEY_HERE_1"),
        case("api_key=\"", mixed("", 24), "\"", "api_key=settings.api_key_v2_default"),
        case("?apikey=", mixed("", 24), "&q=1", "?apikey=demo"),
        case("PRIVATE-TOKEN: ", mixed("", 20), "", "PRIVATE-TOKEN: <your_access_token_1>"),
        case("access_token=", mixed("", 40), "&x", "access_token=get_access_token_v2_now()"),
        case("client_secret: ", mixed("", 32), "", "client_secret: client_secret_from_vault_2"),
        case("//registry.npmjs.org/:_authToken=", mixed("", 36), "", "_authToken=${NPM_TOKEN}"),
        case("Authorization: Basic ", "bWU6aHVudGVyMg==", "", "Authorization: Basic x"),
        case("authorization: bearer ", mixed("", 32), "'", "Authorization: Bearer $TOKEN"),
        case("\"Authorization\": \"Bearer ", mixed("", 32), "\"", "Authorization: required"),
        case("postgres://me:", "hunter2", "@db/x", "postgres://me@db:5432/x"),
        case("redis://:", "hunter2", "@cache", "http://host:80/a@b"),
        case("machine h login me password ", "hunter2", "", "enter your password again or log in"),
        case("  password ", "hunter2", "", "password must have 8 characters"),
        case("db.local:5432:app:me:", "hunter2", "", "127.0.0.1:5432:5432 0.0.0.0:5432->5432/tcp"),
        case(
            "curl -s -u me:",
            "hunter2",
            " https://x",
            "docker run -u 1000:1000 x; curl -u \"$U:$P\" x",
        ),
        case("mysql -u root -p", "hunter2", " app", "mysql -u root -p app; mysql -P3306"),
        case("sshpass -p ", "hunter2", " ssh h", "sshpass -p \"$PW\" ssh h"),
    ]
}

fn all() -> Vec<Case> {
    [tokens(), cloud_keys(), passwords(), in_places()].into_iter().flatten().collect()
}

#[test]
fn of_every_form_the_secret_alone_is_masked_and_a_near_miss_is_not() {
    let redactor = Redactor::with_known_secrets(&[]).unwrap();
    let cases = all();
    assert!(cases.len() >= 80, "{}", cases.len());
    let mut wrong = Vec::new();
    for Case { before, secret, after, near_miss } in &cases {
        let (line, expected) =
            (format!("{before}{secret}{after}"), format!("{before}{MASK}{after}"));
        let masked = redactor.mask_text(&line);
        if masked != expected {
            wrong.push(format!("{line}\n  → {masked}"));
        }
        let shown = redactor.mask_text(near_miss);
        if shown != *near_miss {
            wrong.push(format!("near miss {near_miss}\n  → {shown}"));
        }
        assert_eq!(redactor.mask_text(&masked), masked, "masking twice changes nothing");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_form_has_a_case() {
    let cases = all();
    for (index, form) in FORMS.iter().enumerate() {
        let is_met = |case: &Case| {
            let line = format!("{}{}{}", case.before, case.secret, case.after);
            secrets_of(index, line.as_bytes()).is_some_and(|found| !found.is_empty())
        };
        assert!(cases.iter().any(is_met), "{} {}", form.kind, form.pattern);
    }
}

#[test]
fn a_secret_is_found_however_its_line_was_cut() {
    let redactor = Arc::new(Redactor::with_known_secrets(&[]).unwrap());
    for Case { before, secret, after, .. } in all() {
        let line = format!("{before}{secret}{after}\n");
        for cut in 0..line.len() {
            let mut masker = LineMasker::new(Arc::clone(&redactor));
            let mut masked = masker.push(&line.as_bytes()[..cut]);
            masked.extend(masker.push(&line.as_bytes()[cut..]));
            masked.extend(masker.flush());
            let expected = format!("{before}{MASK}{after}\n");
            assert_eq!(String::from_utf8_lossy(&masked), expected, "cut at {cut}");
        }
    }
}

/// Source code, help texts and messages in which the names of secrets stand.
const READABLE: &[&str] = &[
    "def login(user, password=None, *, api_key: str = \"\") -> Token:",
    "    self.password = password",
    "    password = os.environ[\"DB_PASSWORD\"]",
    "    password = os.environ.get('DB_PASSWORD', '')",
    "    password = config.db.password2",
    "    password = generate_password_hash(password1)",
    "    conn = connect(host=host1, password=password, port=5432)",
    "let password = rpassword::prompt_password(\"Password: \")?;",
    "pub struct Login { pub user: String, pub password: String }",
    "    password: Option<String>,",
    "    pub api_key: Option<SecretString>,",
    "const password = req.body.password;",
    "const { password, api_key } = process.env;",
    "  password: process.env.DB_PASSWORD,",
    "  password: { type: String, required: true, minlength: 8 },",
    "<input type=\"password\" name=\"password\" id=\"password1\">",
    "if (password.length < 8) throw new Error('password: too short');",
    "password=\"$1\"; export PGPASSWORD=\"$password\"",
    "read -s -p 'Password: ' password",
    "      --password string     Password for the registry",
    "      --password-stdin      Take the password from stdin",
    "error: invalid password for user 'me1'",
    "sudo: a password is required",
    "%wheel ALL=(ALL) NOPASSWD: ALL",
    "root:x:0:0:root:/root:/bin/bash",
    "PWD=/home/me",
    "bash: pwd: command not found",
    "ALTER ROLE app WITH PASSWORD NULL;",
    "password_encryption = scram-sha-256",
    "access_token = client.fetch_access_token(code1)",
    "token_type=bearer&expires_in=3600",
    "key-value pairs, sk-learn, task-1, hf_hub",
    "commit 0123456789abcdef0123456789abcdef01234567",
    "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
];

#[test]
fn code_help_and_messages_stay_readable() {
    let redactor = Redactor::with_known_secrets(&[]).unwrap();
    for line in READABLE {
        assert_eq!(redactor.mask_text(line), *line);
    }
}
