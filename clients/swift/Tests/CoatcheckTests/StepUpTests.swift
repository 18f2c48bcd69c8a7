import Foundation
import Testing

@testable import Coatcheck

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

@Suite("Demands on a sign-in")
struct DemandTests {
    private func demand(_ acr: String?, _ age: Int?) -> StepUp {
        StepUp(acrValues: acr?.split(separator: " ").map(String.init), maxAge: age)
    }

    @Test("Two demands → the first covers the second if it requires at least as much")
    func covers() {
        let table: [(StepUp, StepUp, Bool)] = [
            (demand("mfa", nil), demand("mfa phr", nil), true), (demand("mfa phr", nil), demand("mfa", nil), false),
            (demand(nil, 60), demand(nil, 300), true), (demand(nil, 300), demand(nil, 60), false),
            (demand("mfa", 60), demand(nil, 300), true), (demand(nil, 60), demand("mfa", nil), false),
            (demand("mfa", nil), demand(nil, 60), false), (demand("mfa", 60), demand("mfa", 60), true),
        ]
        for (one, other, covers) in table { #expect(one.covers(other) == covers, "\(one) \(other)") }
    }

    @Test("Two demands are joined → the weakest demand that satisfies both of them, or nil if this is impossible")
    func joins() {
        let table: [(StepUp, StepUp, StepUp?)] = [
            (demand("mfa phr", nil), demand("phr hwk", 300), demand("phr", 300)),
            (demand(nil, 60), demand("mfa", 300), demand("mfa", 60)),
            (demand("mfa", nil), demand("phr", nil), nil), (demand(nil, 300), demand(nil, nil), demand(nil, 300)),
        ]
        for (one, other, joined) in table { #expect(one.joined(other) == joined, "\(one) \(other)") }
    }

    @Test("A demand is encoded as JSON and decoded → the API's members `acr_values` and `max_age`, and the same demand")
    func coding() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        for (value, text) in [
            (demand("mfa phr", 300), #"{"acr_values":"mfa phr","max_age":300}"#), (demand(nil, 0), #"{"max_age":0}"#),
        ] {
            #expect(String(decoding: try encoder.encode(value), as: UTF8.self) == text)
            #expect(try JSONDecoder().decode(StepUp.self, from: Data(text.utf8)) == value)
        }
    }
}

extension BrokerTests {
    @Suite("Step-ups", .timeLimit(.minutes(5)))
    struct StepUpTests {
        /// An app that always gives the same answer when the library asks whether it may open a browser, and records the
        /// demands.
        private actor App {
            private(set) var asked: [StepUp] = []
            private let says: Bool
            init(says: Bool) { self.says = says }
            func ask(_ demand: StepUp) -> Bool {
                asked.append(demand)
                return says
            }
        }

        private func device(
            _ client: String, _ browser: StepUpBrowser, at url: URL, app: App? = nil, key: SoftwareProofKey? = nil,
            storage: any CredentialStorage = MemoryStorage(), gathering: Duration = .milliseconds(100)
        ) -> Coatcheck {
            var onStepUp: (@Sendable (StepUp) async -> Bool)?
            if let app { onStepUp = { await app.ask($0) } }
            return Coatcheck(
                broker: url, client: client, storage: storage, key: key, browser: browser, onStepUp: onStepUp,
                patience: Patience(), gathering: gathering, now: { Date() })
        }

        private func failure<Value>(_ work: () async throws -> Value) async -> (any Error)? {
            do { _ = try await work() } catch { return error }
            return nil
        }

        /// A device whose user signed in an hour ago.
        private func aged(
            _ client: String = "ios", user: String, app: App?, at network: MeddlingNetwork,
            gathering: Duration = .milliseconds(100)
        ) async throws -> (Coatcheck, StepUpBrowser, Session) {
            let browser = StepUpBrowser(user: user, age: 4_000)
            let key = client == "ios" ? nil : try SoftwareProofKey()
            let phone = device(client, browser, at: network.url, app: app, key: key, gathering: gathering)
            let session = try #require(try await phone.signIn(with: "oidc").session)
            browser.age = nil
            try await network.forget()
            return (phone, browser, session)
        }

        @Test("A call needs a step-up that the app has not allowed → the call throws the demand, and no browser opens")
        func noSurprise() async throws {
            let network = try MeddlingNetwork(to: try await Stack.shared.value.broker)
            for app in [nil, App(says: false)] {
                let (phone, browser, session) = try await aged(user: "stan", app: app, at: network)
                let refused = await failure { try await phone.relay("guarded", "private/echo") } as? StepUpRequired
                #expect(refused?.stepUp == StepUp(maxAge: 300) && refused?.isParents == false)
                #expect(refused?.problem.code == .stepUpRequired)
                #expect(browser.pages.count == 1)
                #expect(await app?.asked ?? [StepUp(maxAge: 300)] == [StepUp(maxAge: 300)])
                #expect(try await network.calls().map(\.path) == ["/v1/relay/guarded/private/echo"])
                #expect(try await phone.session().handle == session.handle)
            }
        }

        @Test(
            "Ten calls need a step-up at the same time → one step-up, and each call is repeated once",
            arguments: ["ios", "bound", "bound-bearer"])
        func once(client: String) async throws {
            let stack = try await Stack.shared.value
            let network = try MeddlingNetwork(to: stack.broker)
            let app = App(says: true)
            let (phone, browser, session) = try await aged(client, user: "sina", app: app, at: network)
            let secret = try phone.storage.read()?.session
            let tokens = try await stack.calls("oidc/token")
            let statuses = try await withThrowingTaskGroup(of: Int.self, returning: [Int].self) { group in
                for _ in 0..<10 { group.addTask { try await phone.relay("guarded", "private/echo").status } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(statuses == Array(repeating: 200, count: 10))
            #expect(browser.pages.count == 2 && browser.pages.last?.contains("max_age=300") == true)
            #expect(await app.asked == [StepUp(maxAge: 300)])
            #expect(try await stack.calls("oidc/token") == tokens + 1)
            let calls = try await network.calls()
            let relayed = calls.filter { $0.path.hasPrefix("/v1/relay") }
            #expect(relayed.filter { $0.status == 401 }.count == 10 && relayed.filter { $0.status == 200 }.count == 10)
            #expect(calls.filter { $0.path == "/v1/sessions" }.map(\.status) == [200])
            let now = try await phone.session()
            #expect(now.handle == session.handle && now.binding == session.binding)
            let (before, after) = try (#require(session.authenticatedAt), #require(now.authenticatedAt))
            #expect(after > before)
            let kept = try #require(try phone.storage.read())
            #expect(kept.session == secret && kept.login == nil && kept.lastSession == now)
        }

        @Test(
            "Calls with different demands wait → one step-up for the strictest demand; a stronger one later → a second step-up"
        )
        func joined() async throws {
            let network = try MeddlingNetwork(to: try await Stack.shared.value.broker)
            let app = App(says: true)
            let (phone, browser, _) = try await aged(user: "sofi", app: app, at: network, gathering: .seconds(2))
            func call(_ method: String) async throws -> Int {
                try await phone.relay("guarded", "private/echo", method: method, body: Data()).status
            }
            async let recent = phone.relay("guarded", "private/echo").status
            async let strong = call("POST")
            async let strongest = call("PUT")
            #expect(try await (recent, strong, strongest) == (200, 200, 200))
            #expect(await app.asked == [StepUp(acrValues: ["phr"], maxAge: 300)])
            #expect(browser.pages.count == 2)

            let (other, slow, _) = try await aged(user: "sofi", app: app, at: network)
            slow.holds = true
            async let first = other.relay("guarded", "private/echo").status
            await slow.opened(2)
            // The sign-in on the open page is not enough for these two calls. Both calls have the same demand.
            async let second = other.relay("guarded", "private/echo", method: "POST", body: Data()).status
            async let third = other.relay("guarded", "private/echo", method: "POST", body: Data()).status
            // For this call, the sign-in on the open page is enough.
            async let fourth = other.relay("guarded", "private/echo").status
            while try await network.calls().filter({ $0.status == 401 }).count < 4 {
                try await Task.sleep(for: .milliseconds(20))
            }
            while other.pages.count == 0 { try await Task.sleep(for: .milliseconds(10)) }
            #expect(slow.pages.count == 2)
            slow.holds = false
            #expect(try await (first, second, third, fourth) == (200, 200, 200, 200))
            #expect(slow.pages.count == 3 && slow.pages.last?.contains("acr_values=mfa") == true)
        }

        @Test("A call is refused again after its step-up → the call throws StepUpRequired, and no second page opens")
        func again() async throws {
            let network = try MeddlingNetwork(to: try await Stack.shared.value.broker)
            let (phone, browser, _) = try await aged(user: "seb", app: App(says: true), at: network)
            try await network.meddle("step_up_required", "/v1/relay/api/echo", times: 9)
            let refused = await failure { try await phone.relay("api", "echo") }
            #expect(refused is StepUpRequired)
            #expect(browser.pages.count == 2)
            #expect(try await network.calls().filter { $0.path == "/v1/relay/api/echo" }.count == 2)
        }

        @Test("The refusal of a call arrives after another call's step-up → the call is repeated, and no page opens")
        func late() async throws {
            let network = try MeddlingNetwork(to: try await Stack.shared.value.broker)
            let (phone, browser, _) = try await aged(user: "lou", app: App(says: true), at: network)
            try await network.meddle("held", "/v1/relay/api/echo")
            async let late = phone.relay("api", "echo").status
            while try await network.calls().isEmpty { try await Task.sleep(for: .milliseconds(10)) }
            _ = try await phone.stepUp(maxAge: 60)
            try await network.release()
            #expect(try await late == 200)
            #expect(browser.pages.count == 2)
        }

        @Test(
            "The user closes the page → all waiting calls are cancelled; the last waiting call is cancelled → the page closes"
        )
        func closed() async throws {
            let network = try MeddlingNetwork(to: try await Stack.shared.value.broker)
            let (phone, browser, session) = try await aged(user: "sam", app: App(says: true), at: network)
            browser.closes = true
            await withTaskGroup(of: (any Error)?.self) { group in
                for _ in 0..<5 {
                    group.addTask { await failure { try await phone.relay("guarded", "private/echo") } }
                    group.addTask { await failure { try await phone.stepUp(maxAge: 300) } }
                }
                for await one in group { #expect(one as? CoatcheckError == .cancelled) }
            }
            #expect(browser.pages.count == 2)
            #expect(try await phone.session().handle == session.handle)
            (browser.closes, browser.holds) = (false, true)
            let waiting = (0..<2).map { _ in Task { try await phone.stepUp(acrValues: ["mfa"]) } }
            await browser.opened(3)
            waiting[0].cancel()
            await #expect(throws: CancellationError.self) { try await waiting[0].value }
            #expect(browser.closings == 0)
            waiting[1].cancel()
            await #expect(throws: CancellationError.self) { try await waiting[1].value }
            while browser.closings == 0 { try await Task.sleep(for: .milliseconds(10)) }
            // The closed page does not delay the next step-up.
            browser.holds = false
            #expect(try await phone.stepUp(acrValues: ["mfa"]).acr == "mfa")
        }

        @Test(
            "A step-up is too weak, by another user or refused → the broker's problem is thrown, and the session is unchanged"
        )
        func named() async throws {
            let stack = try await Stack.shared.value
            let network = try MeddlingNetwork(to: stack.broker)
            let (phone, browser, session) = try await aged(user: "sue", app: nil, at: network)
            browser.age = 4_000
            let weak = await failure { try await phone.stepUp(acrValues: ["mfa"], maxAge: 300) } as? Problem
            #expect(weak?.code == .stepUpFailed && weak?.required == StepUp(acrValues: ["mfa"], maxAge: 300))
            #expect(try #require(weak?.got?.authenticatedAt) < Date() - 3_000)
            browser.age = nil
            browser.user = "ben"
            let other = await failure { try await phone.stepUp(maxAge: 300) } as? Problem
            #expect(other?.code == .subjectMismatch)
            browser.user = "denied"
            #expect((await failure { try await phone.stepUp(maxAge: 300) } as? Problem)?.code == .accessDenied)
            browser.user = "sue"
            let impossible = await failure { try await phone.stepUp() } as? Problem
            #expect(impossible?.code.rawValue == "invalid_request")
            #expect(try await phone.session().authenticatedAt == session.authenticatedAt)
            let copy = MemoryStorage()
            try copy.write(try phone.storage.read())
            let cookie = "coatcheck=\(try #require(try copy.read()?.session))"
            try await stack.device(storage: copy).signOut()
            _ = try await stack.ending("Cookie", cookie)
            #expect((await failure { try await phone.stepUp(maxAge: 300) } as? Problem)?.code == .sessionEnded)
        }

        @Test(
            "A step-up's answer is lost → the client repeats the request; the app restarts → it can still finish the step-up",
            arguments: ["ios", "bound"])
        func lost(client: String) async throws {
            let stack = try await Stack.shared.value
            let network = try MeddlingNetwork(to: stack.broker)
            let (phone, browser, session) = try await aged(client, user: "sol", app: nil, at: network)
            let tokens = try await stack.calls("oidc/token")
            try await network.meddle("lost", "/v1/sessions")
            #expect(try await phone.stepUp(acrValues: ["mfa"]).acr == "mfa")
            #expect(try await network.calls().filter { $0.path == "/v1/sessions" }.map(\.status) == [nil, 200])
            #expect(try await stack.calls("oidc/token") == tokens + 1)
            let callback = try await browser.open(try await phone.startStepUp(acrValues: ["phr"]))
            let restarted = Coatcheck(broker: stack.broker, client: client, storage: phone.storage, key: phone.key)
            let risen = try #require(try await restarted.finish(callback).session)
            #expect(risen.handle == session.handle && risen.acr == "phr")
            #expect(try await restarted.relay("guarded", "private/echo", method: "PUT", body: Data()).status == 200)
        }

        @Test(
            "A child's call needs a step-up → only the parent can do it; a first sign-in with a demand → the demand is checked"
        )
        func child() async throws {
            let stack = try await Stack.shared.value
            let network = try MeddlingNetwork(to: stack.broker)
            let (phone, browser, _) = try await aged(user: "sid", app: nil, at: network)
            let storage = MemoryStorage()
            var credentials = Credentials()
            credentials.session = try await phone.child(kind: "widget", name: "home").token
            credentials.transport = .bearer
            try storage.write(credentials)
            let app = App(says: true)
            let widget = device("ios", browser, at: network.url, app: app, storage: storage)
            let refused = await failure { try await widget.relay("guarded", "private/echo") } as? StepUpRequired
            #expect(refused?.isParents == true && refused?.stepUp == StepUp(maxAge: 300))
            #expect(await app.asked.isEmpty)
            let tablet = device("ios", StepUpBrowser(user: "sid", age: 4_000), at: network.url)
            let weak = await failure { try await tablet.signIn(with: "oidc", stepUp: StepUp(maxAge: 600)) } as? Problem
            #expect(weak?.code == .stepUpFailed)
            let strong = device("ios", StepUpBrowser(user: "sid"), at: network.url)
            #expect(try await strong.signIn(with: "oidc", stepUp: StepUp(acrValues: ["mfa"])).session?.acr == "mfa")
        }
    }
}
