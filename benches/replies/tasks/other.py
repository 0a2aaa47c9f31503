"""Tasks of the same kinds with other tools, which show that nothing was made for the everyday set alone."""

from datetime import timedelta
from random import Random

from .logs import LOG_START
from .task import Task, add_program, place

MYPY = (
    ("app/billing/invoice.py", 48, 'Incompatible return value type (got "Decimal", expected "int")', "return-value"),
    ("app/billing/invoice.py", 91, 'Argument 1 to "round_cents" has incompatible type "str"; expected "Decimal"', "arg-type"),
    ("app/billing/tax.py", 17, 'Item "None" of "Rate | None" has no attribute "percent"', "union-attr"),
    ("app/orders/models.py", 133, '"Order" has no attribute "shiped_at"; maybe "shipped_at"?', "attr-defined"),
    ("app/orders/views.py", 29, "Missing return statement", "return"),
    ("app/orders/views.py", 64, 'Unsupported operand types for + ("int" and "str")', "operator"),
    ("app/search/index.py", 12, 'Cannot find implementation or library stub for module named "whoosh.fields"', "import-not-found"),
    ("app/search/index.py", 75, 'Need type annotation for "pending" (hint: "pending: list[<type>] = ...")', "var-annotated"),
    ("app/util/retry.py", 22, 'Too many arguments for "sleep"', "call-arg"),
)


def mypy(folder):
    """mypy 1.18: 9 errors in 6 files."""
    task = Task("mypy", "mypy, 9 errors in 6 files", "")
    task.add_exit(1)
    lines = []
    for file, line, message, code in MYPY:
        lines.append(f"{file}:{line}: error: {message}  [{code}]")
        if code == "import-not-found":
            lines.append(f"{file}:{line}: note: See https://mypy.readthedocs.io/en/stable/running_mypy.html#missing-imports")
        task.add(f"{file}:{line}", place(file, line), rf"\[{code}\]|" + message.split('"')[0].strip().replace("(", r"\("))
    lines.append("Found 9 errors in 6 files (checked 214 source files)")
    task.command = add_program(folder, "mypy", "\n".join(lines) + "\n", 1) + " app"
    return task


VITEST_FILES = ("cart", "catalog", "checkout", "login", "orders", "prices", "profile", "search", "shipping", "wishlist")
VITEST_FAILED = {
    "cart": ("keeps the currency", 41, 23, "AssertionError: expected 'USD' to be 'EUR' // Object.is equality"),
    "orders": ("cancels a paid order", 88, 11, "TypeError: Cannot read properties of undefined (reading 'refund')"),
    "shipping": ("rounds the weight up", 19, 29, "AssertionError: expected 12 to be 13 // Object.is equality"),
}


def vitest(folder):
    """vitest 3.2: 3 of 140 tests in 10 files fail."""
    task = Task("vitest", "vitest run, 3 of 140 fail", "")
    task.add_exit(1)
    task.add("counts", r"\b3 failed", r"\b137 passed")
    output, failures = ["", " RUN  v3.2.4 /srv/app", ""], []
    for name in VITEST_FILES:
        file = f"src/{name}.test.ts"
        if name not in VITEST_FAILED:
            output.append(f" ✓ {file} (14 tests) {len(name) * 7}ms")
            continue
        test, line, column, message = VITEST_FAILED[name]
        output.append(f" ❯ {file} (14 tests | 1 failed) 96ms")
        output += [f"   ✓ {name} > case {case} 1ms" for case in range(1, 14)]
        output += [f"   × {name} > {test} 9ms", f"     → {message.split(': ', 1)[1]}"]
        failures += [f" FAIL  {file} > {name} > {test}", message, ""]
        failures += [f" ❯ {file}:{line}:{column}", f"     {line - 1}|   it('{test}', () => {{", f"     {line}|     expect(result).toBe(expected);"]
        failures += ["       |" + " " * column + "^", f"     {line + 1}|   }});", "", "⎯" * 24 + f"[{list(VITEST_FAILED).index(name) + 1}/3]⎯", ""]
        task.add(f"{name}: {test}", place(file, line), test, span=5)
        task.add_text(f"{name}: message", message.split(": ", 1)[1].split(" //")[0])
    output += ["", "⎯⎯⎯⎯⎯⎯⎯ Failed Tests 3 ⎯⎯⎯⎯⎯⎯⎯", "", *failures, ""]
    output += [
        " Test Files  3 failed | 7 passed (10)",
        "      Tests  3 failed | 137 passed (140)",
        "   Start at  09:12:44",
        "   Duration  3.68s (transform 431ms, setup 0ms, collect 1.15s, tests 859ms, environment 2ms, prepare 1.77s)",
        "",
    ]
    task.command = add_program(folder, "vitest", "\n".join(output) + "\n", 1) + " run"
    return task


GRADLE_FAILED = (
    ("OrderServiceTest", "rejectsEmptyOrder()", "org.opentest4j.AssertionFailedError", 142),
    ("PriceImportTest", "readsCommaDecimals()", "java.lang.NumberFormatException", 57),
    ("StockRepositoryIT", "locksRow()", "org.opentest4j.AssertionFailedError", 88),
)


def gradle(folder):
    """gradle 8 with JUnit 5: 3 of 212 tests fail."""
    task = Task("gradle", "gradle test, 3 of 212 fail", "")
    task.add_exit(1)
    task.add("counts", r"\b212 tests|\b209 passed", r"\b3 failed")
    output = []
    for module in ("common", "model", "storage", "pricing", "mail", "report", "web", "app"):
        output += [
            f"> Task :{module}:{step}"
            for step in ("compileJava", "processResources NO-SOURCE", "classes", "compileTestJava", "processTestResources NO-SOURCE", "testClasses")
        ]
        if module != "app":
            output += [f"> Task :{module}:test", f"> Task :{module}:jar"]
    output += ["", "> Task :app:test"]
    for name, test, exception, line in GRADLE_FAILED:
        output += ["", f"{name} > {test} FAILED", f"    {exception} at {name}.java:{line}"]
        task.add(f"{name} {test}", place(f"{name}.java", line), test.rstrip("()"), span=2)
    output += ["", "212 tests completed, 3 failed", "", "> Task :app:test FAILED", "", "FAILURE: Build failed with an exception.", "", "* What went wrong:"]
    output += ["Execution failed for task ':app:test'.", "> There were failing tests. See the report at: file:///srv/app/app/build/reports/tests/test/index.html", ""]
    output += ["* Try:", "> Run with --scan to get full insights.", "", "BUILD FAILED in 41s", "54 actionable tasks: 31 executed, 23 up-to-date"]
    task.command = add_program(folder, "gradlew", "\n".join(output) + "\n", 1) + " test"
    return task


RSPEC_FAILED = {
    23: (
        "Order#total",
        "sums the lines",
        "spec/models/order_spec.rb",
        42,
        "expect(order.total).to eq(1200)",
        ["", "expected: 1200", "     got: 1100", "", "(compared using ==)"],
    ),
    97: (
        "Invoice",
        "has a due date",
        "spec/models/invoice_spec.rb",
        18,
        "invoice.due_date.strftime('%F')",
        ["", "NoMethodError:", "undefined method 'strftime' for nil"],
    ),
    160: (
        "GET /orders",
        "answers with 404",
        "spec/requests/orders_spec.rb",
        77,
        "expect(response).to have_http_status(:not_found)",
        ["expected the response to have status code :not_found (404) but it was :ok (200)"],
    ),
}


def rspec(folder):
    """rspec 3.13 with the documentation format: 3 of 210 examples fail."""
    task = Task("rspec", "rspec, 3 of 210 fail", "")
    task.add_exit(1)
    task.add("counts", r"\b3 fail", r"\b210 examples|\b207 passed")
    output, failures, commands = [], [], []
    for number in range(210):
        if number % 7 == 0:
            output += ["", f"Feature {number // 7:02}"]
        if number not in RSPEC_FAILED:
            output.append(f"  does thing {number:03}")
            continue
        group, example, file, line, code, message = RSPEC_FAILED[number]
        index = len(commands) + 1
        output.append(f"  {example} (FAILED - {index})")
        failures += [
            f"  {index}) {group} {example}",
            f"     Failure/Error: {code}",
            *(f"{'     ' if text.endswith('Error:') else '       '}{text}".rstrip() for text in message),
        ]
        failures += [f"     # ./{file}:{line}:in 'block (3 levels) in <top (required)>'", ""]
        commands.append(f"rspec ./{file}:{line - 3} # {group} {example}")
        # The example begins three lines above the expectation: either place finds it.
        task.add(f"{group} {example}", f"{place(file, line)}|{place(file, line - 3)}", example, span=9)
        decisive = next(text for text in message if "got" in text or "undefined" in text or "but it was" in text).split()[-1]
        task.add(f"{group}: message", example, decisive.replace("(", r"\(").replace(")", r"\)"), span=9)
    output += [
        "",
        "Failures:",
        "",
        *failures,
        "Finished in 2.41 seconds (files took 1.08 seconds to load)",
        "210 examples, 3 failures",
        "",
        "Failed examples:",
        "",
        *commands,
        "",
    ]
    task.command = add_program(folder, "rspec", "\n".join(output) + "\n", 1) + " --format documentation"
    return task


CTEST_FAILED = {17: ("codec_roundtrip", "codec_test.cc", 88), 41: ("socket_timeout", "", 0)}


def ctest(folder):
    """ctest with googletest and --output-on-failure: one of 64 tests fails, one times out."""
    task = Task("ctest", "ctest, 2 of 64 fail", "")
    task.add_exit(8)
    output = ["Test project /srv/app/build"]
    for number in range(1, 65):
        name, file, line = CTEST_FAILED.get(number, (f"unit_{number:02}", "", 0))
        output.append(f"      Start {number:2}: {name}")
        result = "   Passed    0.02 sec" if number not in CTEST_FAILED else "***Failed    0.03 sec" if file else "***Timeout  30.01 sec"
        label = f"#{number}:".rjust(4)
        output.append(f"{number:2}/64 Test {label} {name} ".ljust(52, ".") + result)
        if file:
            output += [
                "Running main() from gmock_main.cc",
                "[==========] Running 3 tests from 1 test suite.",
                "[----------] Global test environment set-up.",
                "[----------] 3 tests from Codec",
            ]
            output += [
                "[ RUN      ] Codec.Empty",
                "[       OK ] Codec.Empty (0 ms)",
                "[ RUN      ] Codec.RoundTrip",
                f"/srv/app/tests/{file}:{line}: Failure",
                "Expected equality of these values:",
            ]
            output += [
                "  decoded.size()",
                "    Which is: 31",
                "  32",
                "",
                "[  FAILED  ] Codec.RoundTrip (1 ms)",
                "[ RUN      ] Codec.Large",
                "[       OK ] Codec.Large (4 ms)",
                "[----------] 3 tests from Codec (5 ms total)",
                "",
            ]
            output += [
                "[----------] Global test environment tear-down",
                "[==========] 3 tests from 1 test suite ran. (5 ms total)",
                "[  PASSED  ] 2 tests.",
                "[  FAILED  ] 1 test, listed below:",
                "[  FAILED  ] Codec.RoundTrip",
                "",
                " 1 FAILED TEST",
                "",
            ]
    output += [
        "",
        "97% tests passed, 2 tests failed out of 64",
        "",
        "Total Test time (real) =  34.12 sec",
        "",
        "The following tests FAILED:",
        "\t 17 - codec_roundtrip (Failed)",
        "\t 41 - socket_timeout (Timeout)",
        "Errors while running CTest",
    ]
    task.add("counts", r"\b2 (?:tests )?failed", r"\b64\b|\b62 passed")
    task.add("the failed one", r"codec_roundtrip|Codec\.RoundTrip")
    task.add("its place", place("codec_test.cc", 88))
    task.add("the timeout", r"socket_timeout.*(?i:time)")
    task.command = add_program(folder, "ctest", "\n".join(output) + "\n", 8) + " --output-on-failure"
    return task


def eslint(folder):
    """eslint 9, stylish format: 4 errors and 22 warnings in 12 files."""
    random = Random(21)
    task = Task("eslint", "eslint, 4 errors, 22 warnings", "")
    task.add_exit(1)
    task.add("counts", r"\b4 errors", r"\b22 warnings")
    errors = {
        2: (41, 9, "'fetchUser' is not defined", "no-undef"),
        5: (17, 22, "Expected '===' and instead saw '=='", "eqeqeq"),
        8: (103, 5, "Unreachable code", "no-unreachable"),
        11: (8, 1, "Parsing error: Unexpected token }", ""),
    }
    output = []
    for number in range(12):
        file = f"src/module{number:02}/index.js"
        rows = [
            (random.randint(120, 400), random.randint(1, 40), "warning", f"'{name}' is defined but never used", "no-unused-vars")
            for name in ("left", "right")[: 2 if number < 10 else 1]
        ]
        if number in errors:
            line, column, message, rule = errors[number]
            rows.insert(0, (line, column, "error", message, rule))
            task.add(f"{file}:{line}", rf"{place('/' + file, line)}|{place(file, line)}|^\s*{line}:{column}\s+error", message.split("'")[-1].strip() or message)
        output += ["", f"/srv/app/{file}"]
        output += [f"  {line}:{column}  {level:7}  {message:36}  {rule}".rstrip() for line, column, level, message, rule in rows]
    output += ["", "✖ 26 problems (4 errors, 22 warnings)", ""]
    task.command = add_program(folder, "eslint", "\n".join(output) + "\n", 1) + " src"
    return task


def phpunit(folder):
    """phpunit 11: one failure and one error among 240 tests."""
    task = Task("phpunit", "phpunit, 2 of 240 fail", "")
    task.add_exit(2)
    dots = "." * 120 + "F" + "." * 70 + "E" + "." * 48
    rows = [f"{dots[at : at + 63]:63} {min(at + 63, 240):3} / 240 ({min(at + 63, 240) * 100 // 240:3}%)" for at in range(0, 240, 63)]
    output = [
        "PHPUnit 11.5.2 by Sebastian Bergmann and contributors.",
        "",
        "Runtime:       PHP 8.3.14",
        "Configuration: /srv/app/phpunit.xml",
        "",
        *rows,
        "",
        "Time: 00:01.204, Memory: 24.00 MB",
        "",
        "There was 1 error:",
        "",
    ]
    output += [
        "1) App\\Tests\\MailerTest::testSendsOnce",
        "TypeError: App\\Mailer::send(): Argument #1 ($to) must be of type string, null given, called in /srv/app/tests/MailerTest.php on line 31",
        "",
    ]
    output += [
        "/srv/app/src/Mailer.php:19",
        "/srv/app/tests/MailerTest.php:31",
        "",
        "--",
        "",
        "There was 1 failure:",
        "",
        "1) App\\Tests\\InvoiceTest::testRoundsHalfUp",
        "Failed asserting that 1049 matches expected 1050.",
        "",
        "/srv/app/tests/InvoiceTest.php:58",
        "",
        "ERRORS!",
        "Tests: 240, Assertions: 611, Errors: 1, Failures: 1.",
    ]
    task.add("counts", r"\b240\b|\b238 passed")
    task.add("the failure", r"InvoiceTest\.php:58", r"testRoundsHalfUp", span=4)
    task.add("its message", r"1049 matches expected 1050")
    task.add("the error", r"Mailer(?:Test)?\.php:(?:19|31)", r"testSendsOnce", span=5)
    task.add("its message", r"must be of type string, null given")
    task.command = add_program(folder, "phpunit", "\n".join(output) + "\n", 2)
    return task


def playwright(folder):
    """playwright 1.56, list reporter: 2 of 48 tests fail."""
    task = Task("playwright", "playwright test, 2 of 48 fail", "")
    task.add_exit(1)
    task.add("counts", r"\b2 failed", r"\b46 passed", span=5)
    failed = {
        7: (
            "tests/cart.spec.ts",
            31,
            34,
            "cart › removes an item",
            "Error: expect(locator).toHaveText(expected) failed",
            ["Locator:  getByTestId('total')", 'Expected: "€ 12.00"', 'Received: "€ 24.00"', "Timeout:  5000ms"],
            'Received: "€ 24.00"',
        ),
        29: (
            "tests/login.spec.ts",
            58,
            61,
            "login › remembers the user",
            "Test timeout of 30000ms exceeded.",
            ["Error: locator.click: Test timeout of 30000ms exceeded.", "Call log:", "  - waiting for getByRole('button', { name: 'Remember me' })"],
            "timeout of 30000ms exceeded",
        ),
    }
    output, details, summary = ["", "Running 48 tests using 4 workers", ""], [], []
    for number in range(1, 49):
        if number not in failed:
            output.append(
                f"  ✓  {number:2} [chromium] › tests/page{number % 9}.spec.ts:{number * 3}:5 › page {number % 9} › case {number} ({number * 13 % 17 / 10 + 0.2:.1f}s)"
            )
            continue
        file, line, at, title, head, message, decisive = failed[number]
        name = f"[chromium] › {file}:{line}:5 › {title}"
        output.append(f"  ✘  {number:2} {name} (5.3s)")
        details += ["", f"  {len(summary) + 1}) {name} ".ljust(80, "─"), "", f"    {head}", "", *(f"    {text}" for text in message), ""]
        details += [
            f"      {at - 1} |   await page.goto('/');",
            f"    > {at} |   await check(page);",
            "         |         ^",
            f"      {at + 1} | }});",
            f"        at /srv/app/{file}:{at}:9",
            "",
        ]
        details += [f"    Error Context: test-results/{number}/error-context.md"]
        summary.append(f"    {name} ".ljust(80, "─"))
        task.add(title, f"{place(file, line)}|{place(file, at)}", title.split(" › ")[1], span=14)
        task.add_text(f"{title}: message", decisive)
    output += ["", *details, "", "  2 failed", *summary, "  46 passed (38.4s)"]
    task.command = add_program(folder, "playwright", "\n".join(output) + "\n", 1) + " test"
    return task


def terraform(folder):
    """terraform apply: two of 60 resources fail."""
    task = Task("terraform", "terraform apply, 2 resources fail", "")
    task.add_exit(1)
    names = [f"aws_instance.web[{n}]" for n in range(30)] + [f"aws_route53_record.host[{n}]" for n in range(30)]
    output = [f"{name}: Creating..." for name in names]
    output += [f"{name}: Still creating... [00m{seconds}s elapsed]" for seconds in (10, 20, 30) for name in names[:30] if name != "aws_instance.web[7]"]
    output += [
        f"{name}: Creation complete after {n % 9 + 30}s [id=i-0{n * 7919:08x}]"
        for n, name in enumerate(names)
        if name not in ("aws_instance.web[7]", "aws_route53_record.host[19]")
    ]
    errors = (
        (
            "aws_instance.web[7]",
            "compute.tf",
            41,
            'resource "aws_instance" "web"',
            "creating EC2 Instance: operation error EC2: RunInstances, https response error StatusCode: 400, api error InvalidSubnetID.NotFound: The subnet ID 'subnet-0a1b2c3d' does not exist",
        ),
        (
            "aws_route53_record.host[19]",
            "dns.tf",
            12,
            'resource "aws_route53_record" "host"',
            "creating Route53 Record: InvalidChangeBatch: [Tried to create resource record set [name='web-19.example.com.', type='A'] but it already exists]",
        ),
    )
    for name, file, line, resource, message in errors:
        output += ["╷", f"│ Error: {message}", "│ ", f"│   with {name},", f"│   on {file} line {line}, in {resource}:", f"│   {line}: {resource} {{", "│ ", "╵"]
        task.add(f"{name}: message", message[-40:].replace("[", r"\[").replace("]", r"\]").replace("(", r"\("))
        task.add(f"{name}: place", rf"{file}(?::| line ){line}\b", name.replace("[", r"\[").replace("]", r"\]"), span=3)
    task.command = add_program(folder, "terraform", "\n".join(output) + "\n", 1) + " apply -auto-approve"
    return task


def pod_log(folder):
    """The JSON log of a Kubernetes controller: one error and a panic among 30,000 lines."""
    random = Random(24)
    task = Task("pod", "kubectl logs, JSON lines, one error and a panic", "")
    lines = []
    for number in range(30_000):
        time = (LOG_START + timedelta(milliseconds=number * 40)).isoformat(timespec="milliseconds")
        name = f"tenant-{random.getrandbits(20):05x}"
        if number == 18_244:
            lines.append(
                f'{{"level":"error","ts":"{time}Z","logger":"controller.bucket","msg":"Reconciler error","namespace":"prod","name":"tenant-9f2c1","error":"admission webhook denied the request: quota exceeded: 512Gi"}}'
            )
        else:
            lines.append(
                f'{{"level":"info","ts":"{time}Z","logger":"controller.bucket","msg":"reconciled","namespace":"prod","name":"{name}","duration_ms":{random.randint(2, 90)},"errors":0}}'
            )
    lines += [
        "panic: runtime error: invalid memory address or nil pointer dereference",
        "[signal SIGSEGV: segmentation violation code=0x1 addr=0x18 pc=0x1a2b3c4]",
        "",
        "goroutine 214 [running]:",
    ]
    lines += [
        "example.com/bucket/internal/quota.(*Ledger).Release(0x0, {0xc0004b2f60, 0xb})",
        "\t/src/internal/quota/ledger.go:88 +0x24",
        "example.com/bucket/internal/controller.(*Reconciler).finalize(0xc0001a8000, {0x1f3a2c8, 0xc0007d0c30}, 0xc000a3e000)",
        "\t/src/internal/controller/finalize.go:131 +0x3d2",
    ]
    lines += [
        "sigs.k8s.io/controller-runtime/pkg/internal/controller.(*Controller).Start.func2.2()",
        "\t/go/pkg/mod/sigs.k8s.io/controller-runtime@v0.19.0/pkg/internal/controller/controller.go:227 +0x8f",
        "created by sigs.k8s.io/controller-runtime/pkg/internal/controller.(*Controller).Start.func2 in goroutine 131",
        "\t/go/pkg/mod/sigs.k8s.io/controller-runtime@v0.19.0/pkg/internal/controller/controller.go:223 +0x50c",
    ]
    task.add_exit(0)
    task.add_text("the error", "tenant-9f2c1", "quota exceeded: 512Gi")
    task.add_text("the panic", "invalid memory address or nil pointer dereference")
    task.add("its place", r"quota/ledger\.go:88\b")
    task.command = add_program(folder, "kubectl", "\n".join(lines) + "\n", 0) + " logs deploy/bucket-controller"
    return task


def wget(folder):
    """wget with dots, then a checksum that does not match."""
    random = Random(25)
    output = [
        "--2026-03-14 09:12:44--  https://downloads.example.com/images/disk.img",
        "Resolving downloads.example.com (downloads.example.com)... 192.0.2.10",
        "Connecting to downloads.example.com (downloads.example.com)|192.0.2.10|:443... connected.",
    ]
    output += ["HTTP request sent, awaiting response... 200 OK", "Length: 209715200 (200M) [application/octet-stream]", "Saving to: ‘disk.img’", ""]
    blocks = 4096
    for block in range(blocks):
        left = (blocks - block) // 100
        output.append(f"{block * 50:6}K .......... .......... .......... .......... .......... {block * 100 // blocks:2}% {random.uniform(1, 9):.1f}M {left}s")
    output += [
        "",
        "2026-03-14 09:13:26 (4.77 MB/s) - ‘disk.img’ saved [209715200/209715200]",
        "",
        "disk.img: FAILED",
        "sha256sum: WARNING: 1 computed checksum did NOT match",
    ]
    task = Task("wget", "wget with 4,096 dot lines, then a wrong checksum", add_program(folder, "fetch-image", "\n".join(output) + "\n", 1, "stderr"))
    task.add_exit(1)
    task.add_text("saved", "‘disk.img’ saved [209715200/209715200]")
    task.add_text("the file", "disk.img: FAILED")
    task.add_text("the checksum", "1 computed checksum did NOT match")
    return task


def disk_usage(folder):
    """du of 1,800 folders; one holds nearly everything."""
    random = Random(26)
    lines = []
    for number in range(1800):
        name = f"var/cache/build/{number // 60:02}/{random.getrandbits(40):010x}"
        lines.append(f"318G\t{name}" if number == 1203 else f"{random.uniform(1.1, 9.9):.1f}M\t{name}")
        if number == 1203:
            huge = name
    lines.append("327G\tvar/cache/build")
    task = Task("du", "du -h of 1,800 folders, one of them huge", add_program(folder, "du", "\n".join(lines) + "\n", 0) + " -h var/cache/build")
    task.shell_follow_ups = [f"{task.command} | sort -h | tail -n 5"]
    task.add_exit(0)
    task.add_text("the huge folder", "318G", huge)
    task.add("the sum", r"327G\s+var/cache/build$")
    return task
