import Testing

@testable import Sandbox

/// The requests of the playground's payments, and the phone's messages about them.
@Suite("The playground's payments", .timeLimit(.minutes(1)))
struct PaymentTests {
    private func answer(_ status: Int, _ body: String) -> PlaygroundAnswer {
        PlaygroundAnswer(status: status, headers: [], body: Array(body.utf8))
    }

    @Test(
        "A small or large payment in the playground → a POST to the path for this amount; another amount → there is no payment"
    )
    func requests() throws {
        #expect(PlaygroundPayment(rawValue: 21) == nil)
        let (small, large) = (
            PlaygroundPayment.small.request(jar: CookieJar()), PlaygroundPayment.large.request(jar: CookieJar())
        )
        #expect(small.target == "/v1/relay/shop/payments" && large.target == "/v1/relay/shop/payments/large")
        #expect(small.method == "POST" && large.method == "POST")
        #expect(try JSON.parse(large.body) == ["amount": 500, "currency": "EUR"])
    }

    @Test(
        "A payment demands a sign-in by max_age or acr_values → the phone's message states this demand",
        arguments: [
            (["max_age": 300], "of the last 5 minutes"), (["max_age": 90], "of the last 90 seconds"),
            (["acr_values": "mfa phr", "max_age": 600], "of the last 10 minutes, of the class mfa phr"),
        ] as [(JSON, String)])
    func demands(_ demand: JSON, _ words: String) {
        #expect(
            PhoneMessages.demand(demand, of: .small) == "To pay 20 €, “Corner Shop” wants a sign-in \(words).")
    }

    @Test("A step-up fails or is refused → the phone's message has the reason")
    func refusals() {
        let failed = answer(
            403,
            #"{"code":"step_up_failed","required":{"max_age":300},"got":{"authenticated_at":"2026-01-01T00:00:00Z"}}"#)
        for (given, words) in [
            (nil, "does not answer"), (answer(409, #"{"code":"subject_mismatch"}"#), "somebody else signed in"),
            (answer(403, #"{"code":"access_denied"}"#), "said no"), (failed, #"wanted was {"max_age":300}"#),
            (failed, #"answered {"authenticated_at":"2026-01-01T00:00:00Z"}"#),
            (answer(400, "{}"), "was answered SAID"),
        ] as [(PlaygroundAnswer?, String)] {
            #expect(PhoneMessages.refusedStepUp(given, said: "SAID").contains(words))
        }
    }

    @Test(
        "A request has a proof of presence → the curl line has a variable for the proof, and the conversation shows its claims"
    )
    func presence() throws {
        let proof = PlaygroundProof(
            request: PlaygroundPayment.large.request(jar: CookieJar()), broker: "http://127.0.0.1:9", issuedAt: 1,
            nonce: "n")
        let value = try #require(proof.byAnotherKey())
        let headers = [("Coatcheck-Presence", value)]
        let line = CurlLine(method: "POST", base: "BROKER", target: "/v1/relay/shop/payments/large", headers: headers)
            .text
        #expect(line.contains(#"-H "Coatcheck-Presence: $PRESENCE""#) && !line.contains(value))
        let shown = MessageText.request("POST", "/v1/relay/shop/payments/large", headers: headers, body: [])
        #expect(shown.contains(#""htm":"POST""#) && shown.contains("/v1/relay/shop/payments/large\""))
        #expect(!shown.contains(value.prefix(40)))
    }

    @Test("A cookie jar is copied and then cleared → the copy keeps the cookies")
    func copies() {
        let jar = CookieJar()
        jar.take("coatcheck=a")
        jar.take("coatcheck-pass=b")
        let copy = jar.copy
        jar.clear()
        #expect(copy.field == "coatcheck=a; coatcheck-pass=b" && jar.field == nil)
    }
}
