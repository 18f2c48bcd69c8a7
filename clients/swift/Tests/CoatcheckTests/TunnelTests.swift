import Foundation
import Testing

@testable import Coatcheck

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

@Suite("The client without a network", .timeLimit(.minutes(3)))
struct TunnelTests {
    /// A device that signed in before the network failed.
    private func device(at url: URL, patience: Patience = Patience(), browser: (any SignInBrowser)? = nil) throws
        -> Coatcheck
    {
        let storage = MemoryStorage()
        var credentials = Credentials()
        credentials.session = String(repeating: "A", count: 43)
        try storage.write(credentials)
        return Coatcheck(broker: url, client: "ios", storage: storage, browser: browser, patience: patience)
    }

    @Test("An app starts without a broker, or with a silent one → after two seconds, the client's standing is unknown")
    func start() async throws {
        let silence = try Silence()
        for url in [silence.url, try Stack.url("http://127.0.0.1:1")] {
            let begin = ContinuousClock.now
            #expect(await (try device(at: url)).standing() == .unknown(last: nil))
            #expect(ContinuousClock.now - begin < .seconds(6))
        }
    }

    @Test("A server accepts connections but stays silent → the call fails at its deadline")
    func patience() async throws {
        let silence = try Silence()
        let phone = try device(at: silence.url, patience: Patience(deadline: .seconds(1)))
        let begin = ContinuousClock.now
        await #expect(throws: CoatcheckError.unreachable) { try await phone.session() }
        #expect(ContinuousClock.now - begin < .seconds(6))
    }

    @Test("A sign-out without a network → the device is signed out, and the broker still has to end the session")
    func signOut() async throws {
        let silence = try Silence()
        let phone = try device(at: silence.url, patience: Patience(deadline: .seconds(1)))
        #expect(try await phone.signOut(atProvider: true) == nil)
        let kept = try #require(try phone.storage.read())
        #expect(kept.session == nil && kept.endings.count == 1)
        #expect(await phone.standing() == .signedOut(reason: nil))
    }

    @Test("Two calls share a request, and one is cancelled → the cancelled call returns at once, and the other goes on")
    func cancelled() async throws {
        let silence = try Silence()
        let phone = try device(at: silence.url, patience: Patience(deadline: .seconds(8)))
        let begin = ContinuousClock.now
        let other = Task { try await phone.session() }
        let one = Task { try await phone.session() }
        try await Task.sleep(for: .milliseconds(300))
        one.cancel()
        await #expect(throws: CancellationError.self) { try await one.value }
        #expect(ContinuousClock.now - begin < .seconds(6))
        await #expect(throws: CoatcheckError.unreachable) { try await other.value }
        let last = Task { try await phone.session() }
        try await Task.sleep(for: .milliseconds(300))
        last.cancel()
        await #expect(throws: CancellationError.self) { try await last.value }
    }
}

extension BrokerTests {
    @Suite("Sign-ins and cancelled calls", .timeLimit(.minutes(3)))
    struct LeavingOffTests {
        @Test("Sign-ins at one provider share a page, and the last of them is cancelled → the page closes")
        func browser() async throws {
            let stack = try await Stack.shared.value
            let browser = WaitingBrowser()
            let phone = Coatcheck(broker: stack.broker, client: "ios", storage: MemoryStorage(), browser: browser)
            let calls = ["oidc", "oauth2", "oidc"].map { name in Task { try await phone.signIn(with: name) } }
            while browser.pages < 2 { try await Task.sleep(for: .milliseconds(20)) }
            #expect(browser.closings == 0)
            calls[0].cancel()
            await #expect(throws: CancellationError.self) { try await calls[0].value }
            #expect(browser.closings == 0, "another sign-in still waits for that page")
            calls[2].cancel()
            calls[1].cancel()
            for call in calls { _ = try? await call.value }
            while browser.closings < 2 { try await Task.sleep(for: .milliseconds(20)) }
            #expect(browser.pages == 2)
        }

        @Test(
            "A sign-out without a network → the next call ends the session, even after a restart of the app")
        func madeUpFor() async throws {
            let stack = try await Stack.shared.value
            let file = FileManager.default.temporaryDirectory.appendingPathComponent("coatcheck-\(UUID().uuidString)")
            let jar = HTTPCookieStorage.sharedCookieStorage(forGroupContainerIdentifier: UUID().uuidString)
            defer { try? FileManager.default.removeItem(at: file) }
            let storages: [any CredentialStorage] = [
                FileStorage(file), CookieStorage(broker: stack.broker, cookies: jar),
            ]
            for storage in storages {
                _ = try await stack.device(user: "otto", storage: storage).signIn(with: "oidc")
                let token = try #require(try storage.read()?.session)
                let silence = try Silence()
                let tunnel = Coatcheck(
                    broker: silence.url, client: "ios", storage: storage,
                    patience: Patience(deadline: .milliseconds(500)))
                try await tunnel.signOut()
                let witness = MemoryStorage()
                var credentials = Credentials()
                credentials.session = token
                try witness.write(credentials)
                let same = stack.device(storage: witness)
                #expect(try await same.session().subject == "user-otto", "the broker does not know of the sign-out yet")
                #expect(await stack.device(storage: storage).standing() == .signedOut(reason: nil))
                while try storage.read()?.endings.isEmpty == false { try await Task.sleep(for: .milliseconds(20)) }
                #expect(try await stack.ending("Cookie", "coatcheck=\(token)") == "logged_out")
                #expect(await same.standing() == .signedOut(reason: "logged_out"))
            }
        }

        @Test(
            "The provider list, an SDK's token, a native code → each works if the client may use it, and is refused otherwise"
        )
        func more() async throws {
            let stack = try await Stack.shared.value
            #expect(try await stack.device().providers().contains { $0.name == "oidc" && !$0.displayName.isEmpty })
            let phone = stack.device("sdk", user: "sia")
            _ = try await phone.signIn(with: "oidc")
            let token = try await phone.accessToken()
            #expect(!token.value.isEmpty && token.type == "Bearer" && token.expiresAt != nil)
            let other = stack.device(user: "sia")
            _ = try await other.signIn(with: "oidc")
            do { _ = try await other.accessToken() } catch let problem as Problem {
                #expect(problem.code.rawValue == "client_not_allowed")
            }
            try await stack.control("PUT", "/clients/google/google-app", #"{"secret":"wq8ZrT5nLk2YvB7xHs0d"}"#)
            let made = try await stack.control(
                "POST", "/native-code/google", #"{"client_id":"google-app","user":"ben","nonce":"my-nonce"}"#)
            let code = try #require(try JSONDecoder().decode([String: String].self, from: made)["code"])
            let login = NativeLogin(provider: "google", client: "web", nonce: "my-nonce")
            let first = try await stack.device("web", user: "ben").forward(code: code, of: login)
            #expect(first.session?.provider == "google")
            #expect(try await stack.device("web", user: "ben").forward(code: code, of: login).session == first.session)
        }

        @Test(
            "A thousand calls over a network that is cut, slow or silent → every sign-in is kept, and no call takes too long"
        )
        func unsteady() async throws {
            let stack = try await Stack.shared.value
            let network = try UnsteadyNetwork(to: stack.replicas[0])
            let patience = Patience(deadline: .seconds(10), longestPause: .seconds(2))
            let seen = try await withThrowingTaskGroup(of: UnsteadyNetwork.Seen.self) { group in
                for number in 0..<20 {
                    group.addTask {
                        try await network.walk(user: "uma\(number)", calls: 50, patience: patience, stack: stack)
                    }
                }
                return try await group.reduce(into: UnsteadyNetwork.Seen()) { $0 += $1 }
            }
            #expect(seen.calls == 1000 && seen.answered > 900, "\(seen)")
            #expect(seen.lost == 0 && seen.unexpected.isEmpty, "\(seen)")
            #expect(seen.longest < .seconds(16), "\(seen)")
        }
    }
}
