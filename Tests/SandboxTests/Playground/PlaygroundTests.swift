import NIOHTTP1
import Testing

@testable import Sandbox

@Suite("The playground", .timeLimit(.minutes(2)))
struct PlaygroundTests {
    private let configuration = SandboxConfiguration(playground: PlaygroundConfiguration(broker: "http://127.0.0.1:9"))

    @Test("The sandbox runs without a playground → /playground/ is 404")
    func off() async throws {
        try await withSandbox { sandbox in
            let page = try await Browser(sandbox: sandbox).send(.GET, "/playground/")
            #expect(page.status == 404)
        }
    }

    @Test(
        "The playground is called by another site or without the page's token, or /_sandbox is called by another site → 403"
    )
    func refusals() async throws {
        try await withSandbox(configuration) { sandbox in
            let browser = Browser(sandbox: sandbox)
            let foreign = [("Origin", "https://evil.example")]
            let tokenless = try await browser.send(.POST, "/playground/clear", json: [:])
            let elsewhere = try await browser.send(.POST, "/playground/clear", headers: foreign)
            let order = try await browser.send(.DELETE, "/_sandbox/faults", headers: foreign)
            let mine = try await browser.send(.DELETE, "/_sandbox/faults")
            let put = try await browser.send(.PUT, "/playground/")
            #expect([tokenless, elsewhere, order, mine, put].map(\.status) == [403, 403, 403, 204, 405])
        }
    }

    @Test(
        "The sandbox starts twice → the two pages have different tokens, and each start accepts its own page's token"
    )
    func token() async throws {
        var tokens: Set<Substring> = []
        for _ in 0..<2 {
            try await withSandbox(configuration) { sandbox in
                let browser = Browser(sandbox: sandbox)
                let page = try await browser.send(.GET, "/playground/").text
                let token = page.split(separator: "playground-token\" content=\"")[1].prefix { $0 != "\"" }
                let mine = [("Playground-Token", String(token))]
                let news = try await browser.send(.POST, "/playground/wait", json: [:], headers: mine)
                #expect(news.json["providers"]?.elements?.count == 7 && news.json["switches"]?.elements?.count == 13)
                for (action, body) in [
                    ("nothing", [:]), ("sign-in", ["provider": "myspace"]), ("choose", ["as": "mallory"]),
                    ("trouble", ["name": "all"]), ("trouble", ["name": "expire-token"]), ("register", [:]),
                    ("trouble", ["name": "ignore-step-up"]), ("trouble", ["name": "steal-presence"]),
                    ("trouble", ["name": "lose-move"]), ("trouble", ["name": "steal-refresh-token"]), ("update", [:]),
                    ("pay", ["amount": 21]), ("pay", [:]), ("key", ["for": "presence", "x": "AA", "y": "AA"]),
                    ("signed", ["for": "presence", "number": 1, "signature": "AA"]),
                    ("key", ["x": "AA", "y": "AA"]), ("signed", ["number": 1, "signature": "AA"]),
                ] as [(String, JSON)] {
                    let answer = try await browser.send(.POST, "/playground/" + action, json: body, headers: mine)
                    #expect(answer.status == 409, "\(action) \(body.serialized)")
                }
                tokens.insert(token)
            }
        }
        #expect(tokens.count == 2)
    }

    @Test("A broker's call and a phone's call to the sandbox → only the broker's is recorded, without its secrets")
    func recorder() async throws {
        try await withSandbox(configuration) { sandbox in
            let browser = Browser(sandbox: sandbox)
            let page = try await browser.send(.GET, "/playground/").text
            let token = String(page.split(separator: "playground-token\" content=\"")[1].prefix { $0 != "\"" })
            let code = try await browser.code()
            #expect(try await browser.redeem(code).status == 200)
            _ = try await browser.send(.GET, "/oidc/jwks", headers: [(ConversationRecorder.mark, "phone")])
            let news = try await browser.send(
                .POST, "/playground/wait", json: ["after": 0, "version": 0], headers: [("Playground-Token", token)])
            let messages = news.json["messages"]?.elements ?? []
            #expect(messages.map { $0["title"]?.text } == ["POST /oidc/token", "200 OK"])
            #expect(messages.map { $0["from"]?.text } == ["broker", "provider"])
            #expect(!news.text.contains(code) && !news.text.contains(Browser.verifier))
        }
    }

    @Test(
        "The playground has recorded 450 messages → it keeps the last 400, and the page learns that the first 50 are missing"
    )
    func conversation() {
        let conversation = Conversation()
        for number in 1...450 { conversation.note("\(number)") }
        let news = conversation.since(0)
        #expect(news.messages.count == 400 && news.messages.first?.number == 51 && news.last == 450)
        #expect(conversation.since(449).messages.map(\.title) == ["450"])
        conversation.clear()
        #expect(conversation.since(0).messages.isEmpty && conversation.since(0).beginning == 1)
    }
}
