import Testing

@testable import Sandbox

@Suite("The playground's curl lines", .timeLimit(.minutes(1)))
struct CurlLineTests {
    @Test("A secret in a request's body, query or header field → becomes a shell variable in the curl line")
    func variables() {
        let json = CurlLine(
            method: "POST", base: "BROKER", target: "/v1/sessions", headers: [("Content-Type", "application/json")],
            body: Array(#"{"callback_url":"app:/cb?code=c-SECRET1","login_token":"SECRET2","device":"A \"b\""}"#.utf8),
            jar: "jar.txt")
        #expect(
            json.text == #"curl -si -b jar.txt -c jar.txt -H 'Content-Type: application/json' "#
                + #"-d "{\"callback_url\":\"$CALLBACK\",\"login_token\":\"$LOGIN_TOKEN\",\"device\":\"A \\\"b\\\"\"}" "#
                + #""$BROKER/v1/sessions""#)
        let form = CurlLine(
            method: "POST", base: "SANDBOX", target: "/oidc/token",
            headers: [
                ("Content-Type", "application/x-www-form-urlencoded"), ("Authorization", "Basic U0VDUkVU"),
                ("Accept", "application/json"),
            ],
            body: Array("grant_type=authorization_code&code=c-SECRET&redirect_uri=app%3A%2Fcb".utf8))
        #expect(
            form.text == #"curl -si -H "Authorization: Basic $BASIC" -H 'Accept: application/json' "#
                + #"--data-urlencode 'grant_type=authorization_code' --data-urlencode "code=$CODE" "#
                + #"--data-urlencode 'redirect_uri=app:/cb' "$SANDBOX/oidc/token""#)
        let cookie = CurlLine(
            base: "BROKER", target: "/v1/session?token=SECRET&a=b", headers: [("Cookie", "coatcheck=SECRET; x=SECRET")])
        #expect(
            cookie.text == #"curl -si -H "Cookie: coatcheck=$COATCHECK; x=$X" "$BROKER/v1/session?token=$TOKEN&a=b""#)
        let proof = CurlLine(base: "BROKER", target: "/v1/session", headers: [("DPoP", "a.SECRET.c")])
        #expect(proof.text == #"curl -si -H "DPoP: $PROOF" "$BROKER/v1/session""#)
    }

    @Test("Text in a request that the shell would interpret → quoted in the curl line, so it stays text")
    func quoting() {
        let line = CurlLine(
            method: "POST", base: "BROKER", target: "/a$(id)`id`\"?b=$(id)&c",
            headers: [("Content-Type", "application/json")],
            body: Array(#"{"a":"$(id) `id` it's","state":"S1"}"#.utf8))
        #expect(
            line.text == #"curl -si -H 'Content-Type: application/json' "#
                + #"-d "{\"a\":\"\$(id) \`id\` it's\",\"state\":\"$STATE\"}" "$BROKER/a\$(id)\`id\`\"?b=\$(id)&c""#)
        let quoted = CurlLine(
            method: "POST", base: "BROKER", target: "/", headers: [("Content-Type", "application/json")],
            body: Array(#"{"a":"it's $(id)"}"#.utf8))
        #expect(quoted.text.contains(#"-d "{\"a\":\"it's \$(id)\"}""#))
    }

    @Test("A curl line for a login, a log-out or events → has the variable, method or option that it needs")
    func captures() {
        #expect(
            CurlLine(base: "", target: "$URL&sandbox_user=ana", capture: .callback).text
                == #"CALLBACK=$(curl -s -o /dev/null -L --max-redirs 5 --proto-redir =http -D - "$URL&sandbox_user=ana" "#
                + #"| tr -d '\r' | sed -nE 's/^[Ll]ocation: //p' | tail -1)"#)
        #expect(
            CurlLine(method: "DELETE", base: "BROKER", target: "/v1/session", jar: "jar.txt").text
                == #"curl -si -b jar.txt -c jar.txt -X DELETE "$BROKER/v1/session""#)
        #expect(CurlLine(base: "BROKER", target: "/e", jar: "jar.txt", streams: true).text.hasPrefix("curl -sN "))
    }
}
