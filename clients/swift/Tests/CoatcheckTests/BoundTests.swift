import Foundation
import Testing

@testable import Coatcheck

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

extension BrokerTests {
    @Suite("Bound sessions", .timeLimit(.minutes(5)))
    struct BoundTests {
        private func problem(_ work: () async throws -> some Any) async -> Problem? {
            do { _ = try await work() } catch { return error as? Problem }
            return nil
        }

        /// A clock that a test can move.
        private final class Clock: @unchecked Sendable {
            private let lock = NSLock()
            private var ahead = 0.0
            func turn(by seconds: Double) { lock.withLock { ahead += seconds } }
            func now() -> Date { Date() + lock.withLock { ahead } }
        }

        @Test(
            "A sign-in of a bound client, by cookie and by header → a session that belongs to the device's key",
            arguments: ["bound", "bound-bearer"])
        func signIn(client: String) async throws {
            let stack = try await Stack.shared.value
            let network = try MeddlingNetwork(to: stack.broker)
            let key = try SoftwareProofKey()
            let phone = stack.boundDevice(client, user: "bea", key: key, at: network.url)
            let session = try #require(try await phone.signIn(with: "oidc").session)
            #expect(
                session.binding?.jkt == (try await key.publicKey()?.thumbprint) && session.binding?.evidence == "pass")
            #expect(key.keys == 1)
            var calls = try await network.calls()
            #expect(calls.map(\.path) == ["/v1/logins", "/v1/logins", "/v1/sessions"])
            #expect(calls.map(\.code) == ["use_dpop_nonce", nil, nil] && calls.allSatisfy { $0.proof })
            #expect(Set(calls.map(\.jti)).count == 3)
            // Calls of the session send the pass from the sign-in.
            try await network.forget()
            #expect(await phone.standing() == .signedIn(try await phone.session()))
            #expect(try await phone.relay("api", "private/echo").status == 200)
            #expect(try await phone.sessions().contains { $0.binding == session.binding })
            calls = try await network.calls()
            #expect(calls.allSatisfy { $0.pass && !$0.proof && $0.status == 200 } && calls.count == 4)
            #expect(try await phone.pass() == (try phone.storage.read()?.pass?.value))
            // An access token requires a proof.
            try await network.forget()
            _ = try await phone.accessToken()
            #expect(try await network.calls().map(\.proof) == [true])
            try await phone.signOut(atProvider: true)
            #expect(try await network.calls().last?.pass == true)
            #expect(try phone.storage.read() == nil)
        }

        @Test(
            "Copied credentials are used without the device's key or with another key → refused",
            arguments: ["bound", "bound-bearer"])
        func copied(client: String) async throws {
            let stack = try await Stack.shared.value
            let phone = stack.boundDevice(client, user: "cal", key: try SoftwareProofKey())
            let session = try #require(try await phone.signIn(with: "oidc").session)
            var copy = try #require(try phone.storage.read())
            copy.pass = nil
            let network = try MeddlingNetwork(to: stack.broker)
            func thief(_ key: SoftwareProofKey?, knows binding: Bool = true) throws -> Coatcheck {
                let storage = MemoryStorage()
                var copy = copy
                if !binding { copy.lastSession = nil }
                try storage.write(copy)
                return stack.boundDevice(client, user: "eve", key: key, at: network.url, storage: storage)
            }
            #expect(await problem { try await thief(nil).session() }?.code == .proofRequired)
            #expect(await problem { try await thief(nil).relay("api", "private/echo") }?.code == .proofRequired)
            #expect(await problem { try await thief(nil).accessToken() }?.code == .proofRequired)
            #expect(try await network.calls().count == 3)
            try await network.forget()
            // A thief has the session's token but not its key. The thief signs with another key, and the broker refuses it.
            let other = try SoftwareProofKey()
            _ = try await other.make()
            await #expect(throws: CoatcheckError.keyLost) { try await thief(other, knows: false).session() }
            #expect(try await network.calls().map(\.code) == ["proof_required", "proof_invalid"])
            await #expect(throws: CoatcheckError.keyLost) { try await thief(other).session() }
            #expect(try await network.calls().count == 2)
            #expect(try await phone.session().handle == session.handle)
        }

        @Test(
            "The broker refuses a request and sends a nonce → one repeat with this nonce; a second refusal → thrown (W10)"
        )
        func nonce() async throws {
            let stack = try await Stack.shared.value
            let network = try MeddlingNetwork(to: stack.broker)
            let phone = stack.boundDevice(user: "dan", key: try SoftwareProofKey(), at: network.url)
            try await network.meddle("use_dpop_nonce", "/v1/logins", times: 9)
            #expect(await problem { try await phone.start("oidc") }?.code == .useDPoPNonce)
            #expect(try await network.calls().count == 2)
            try await network.forget()
            _ = try await phone.signIn(with: "oidc")
            try await network.meddle("use_dpop_nonce", "/v1/session/token", times: 9)
            try await network.meddle("proof_required", "/v1/session", times: 9)
            #expect(await problem { try await phone.accessToken() }?.code == .useDPoPNonce)
            #expect(await problem { try await phone.session() }?.code == .proofRequired)
            let calls = try await network.calls().map(\.path)
            #expect(
                calls.filter { $0 == "/v1/session/token" }.count == 2 && calls.filter { $0 == "/v1/session" }.count == 2
            )
        }

        @Test("Fifty calls at the same time while the pass is due or refused → one request renews the pass")
        func singleFlight() async throws {
            let stack = try await Stack.shared.value
            let network = try MeddlingNetwork(to: stack.broker)
            let clock = Clock()
            let phone = stack.boundDevice(
                "bound-bearer", user: "flo", key: try SoftwareProofKey(), at: network.url, now: { clock.now() })
            _ = try await phone.signIn(with: "oidc")
            func fifty() async throws -> [MeddlingNetwork.Seen] {
                try await network.forget()
                try await withThrowingTaskGroup(of: Int.self) { group in
                    for _ in 0..<50 { group.addTask { try await phone.relay("api", "echo").status } }
                    for try await status in group { #expect(status == 200) }
                }
                return try await network.calls()
            }
            try await network.end(try #require(try await phone.pass()))
            // Wait for the next second, because a pass made in the same second would be identical.
            try await Task.sleep(for: .milliseconds(1_100))
            let refused = try await fifty()
            let refusals = refused.filter { $0.code == "proof_required" }.count
            #expect(refused.filter { $0.path == "/v1/session/pass" }.count == 1)
            #expect(refusals > 0 && refused.count == 51 + refusals)
            clock.turn(by: 50)
            let due = try await fifty()
            #expect(due.filter { $0.path == "/v1/session/pass" }.count == 1 && due.count == 51)
        }

        @Test("The renewal of a due pass fails → the pass is used as long as the broker accepts it")
        func unreachable() async throws {
            let stack = try await Stack.shared.value
            let network = try MeddlingNetwork(to: stack.broker)
            let clock = Clock()
            let phone = stack.boundDevice(
                user: "gus", key: try SoftwareProofKey(), at: network.url, now: { clock.now() })
            let session = try #require(try await phone.signIn(with: "oidc").session)
            clock.turn(by: 50)
            try await network.meddle("cut", "/v1/session/pass", times: 1)
            #expect(try await phone.session().handle == session.handle)
            #expect(try await phone.session().handle == session.handle)
            #expect(try await network.calls().filter { $0.path == "/v1/session/pass" }.map(\.status) == [nil, 200])
        }

        @Test(
            "The network sends a request twice, and the broker refuses it as a replay → one repeat, except for a sign-in (W11)"
        )
        func replayed() async throws {
            let stack = try await Stack.shared.value
            let network = try MeddlingNetwork(to: stack.broker)
            let phone = stack.boundDevice(user: "hal", key: try SoftwareProofKey(), at: network.url)
            let callback = try await ScriptedBrowser(user: "hal").open(try await phone.start("oidc"))
            try await network.forget()
            try await network.meddle("twice", "/v1/sessions")
            let refusal = await problem { try await phone.finish(callback) }
            #expect(refusal?.code == .proofInvalid && refusal?.reason == "replayed")
            #expect(try await network.calls().count == 1)
            let session = try #require(try await phone.finish(callback).session)
            try await network.forget()
            try await network.meddle("twice", "/v1/session/token")
            _ = try await phone.accessToken()
            let calls = try await network.calls()
            #expect(calls.map(\.status) == [401, 200] && Set(calls.map(\.jti)).count == 2)
            try await network.meddle("twice", "/v1/session/token", times: 9)
            #expect(await problem { try await phone.accessToken() }?.reason == "replayed")
            #expect(try await network.calls().count == 4)
            #expect(try await phone.session().handle == session.handle)
        }

        @Test(
            "The device's key is lost → signed out with the reason key_lost, without a call; other devices stay signed in (W17)"
        )
        func lostKey() async throws {
            let stack = try await Stack.shared.value
            let network = try MeddlingNetwork(to: stack.broker)
            let key = try SoftwareProofKey()
            let clock = Clock()
            let phone = stack.boundDevice(
                "bound-bearer", user: "ida", key: key, at: network.url, now: { clock.now() })
            let session = try #require(try await phone.signIn(with: "oidc").session)
            var copy = try #require(try phone.storage.read())
            copy.pass = nil
            let first = try key.copy()
            try await network.forget()
            clock.turn(by: 50)
            // A key that is temporarily unavailable does not count as lost.
            key.busy(true)
            #expect(await phone.standing() == .signedIn(try await phone.session()))
            await #expect(throws: Stack.Failure.self) { try await phone.accessToken() }
            let none = MemoryStorage()
            try none.write(copy)
            let other = stack.boundDevice("bound-bearer", user: "ida", key: key, storage: none)
            #expect(await other.standing() == .unknown(last: session))
            #expect(try none.read()?.session == copy.session)
            key.busy(false)
            try await network.forget()
            key.lose()
            #expect(await phone.standing() == .signedOut(reason: "key_lost"))
            #expect(try phone.storage.read() == nil || phone.storage.read()?.session == nil)
            #expect(await phone.standing() == .signedOut(reason: nil))
            #expect(try await network.calls().isEmpty)
            // The next sign-in makes a new key.
            let again = try #require(try await phone.signIn(with: "oidc").session)
            #expect(key.keys == 2 && again.binding?.jkt != session.binding?.jkt)
            #expect(try await phone.relay("api", "private/echo").status == 200)
            // If the broker reports that the session has another key, the library does not repeat the call.
            try await network.forget()
            try await network.meddle("key", "/v1/relay/api/echo", times: 9)
            await #expect(throws: CoatcheckError.keyLost) { try await phone.relay("api", "echo") }
            #expect(try await network.calls().count == 1)
            #expect(await problem { try await phone.session() }?.code == .sessionRequired)
            // The session lives on at the first phone, which still has the key. The backup was made from that phone.
            let witness = MemoryStorage()
            try witness.write(copy)
            #expect(
                try await stack.boundDevice("bound-bearer", user: "ida", key: first, storage: witness).session().handle
                    == session.handle)
        }

        @Test("The device's key is lost during a sign-in → the sign-in makes one new key")
        func lostAtSignIn() async throws {
            let stack = try await Stack.shared.value
            let key = try SoftwareProofKey()
            let phone = stack.boundDevice(user: "jon", key: key)
            let callback = try await ScriptedBrowser(user: "jon").open(try await phone.start("oidc"))
            key.lose()
            #expect(await problem { try await phone.finish(callback) }?.code == .loginNotYours)
            #expect(key.keys == 2)
            #expect(try await phone.signIn(with: "oidc").session != nil && key.keys == 2)
            // Sign-ins at the same time make one new key.
            key.lose()
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<10 { group.addTask { _ = try? await phone.start("oidc") } }
            }
            #expect(key.keys == 3)
        }

        @Test(
            "A device's clock is wrong by a day or by decades → sign-in and calls succeed (W1)",
            arguments: [-86_400, 86_400, -86_400 * 365 * 20])
        func clocks(seconds: Int) async throws {
            let stack = try await Stack.shared.value
            let network = try MeddlingNetwork(to: stack.broker)
            let phone = stack.boundDevice(
                user: "kay", key: try SoftwareProofKey(), at: network.url, now: { Date() + Double(seconds) })
            let session = try #require(try await phone.signIn(with: "oidc").session)
            #expect(try await phone.relay("api", "private/echo").status == 200)
            #expect(try await phone.refresh().handle == session.handle)
            _ = try await phone.accessToken()
            let calls = try await network.calls()
            // The proofs contain the device's wrong time. The wrong time causes no repeated request and no early renewal
            // of the pass.
            let expected = Int(Date().timeIntervalSince1970) + seconds
            #expect(calls.compactMap(\.iat).filter { abs($0 - expected) < 60 }.count == 4)
            #expect(calls.count == 6 && !calls.contains { $0.path == "/v1/session/pass" })
        }

        @Test("An event stream of a bound session → opened with a proof; the device's key is lost → the stream ends")
        func events() async throws {
            let stack = try await Stack.shared.value
            let network = try MeddlingNetwork(to: stack.broker)
            let key = try SoftwareProofKey()
            let phone = stack.boundDevice(user: "lea", key: key, at: network.url)
            _ = try await phone.signIn(with: "oidc")
            try await network.forget()
            var seen: [SessionEvent] = []
            for try await event in phone.events() {
                seen.append(event)
                if case .session = event { _ = try await phone.refresh() }
                if event == .tokensRefreshed { break }
            }
            #expect(seen.count == 2)
            #expect(
                try await network.calls().first { $0.path == "/v1/session/events" }.map { $0.proof && !$0.pass } == true
            )
            key.lose()
            var ends: [SessionEvent] = []
            for try await event in phone.events() { ends.append(event) }
            #expect(ends == [.ended(reason: "key_lost")])
        }

        @Test("A session requires a proof for each request → the client adds a proof to each request")
        func proofs() async throws {
            let stack = try await Stack.shared.value
            let network = try MeddlingNetwork(to: stack.broker)
            let phone = stack.boundDevice("proving", user: "max", key: try SoftwareProofKey(), at: network.url)
            let session = try #require(try await phone.signIn(with: "oauth2").session)
            #expect(try session.binding?.evidence == "proof" && phone.storage.read()?.pass == nil)
            try await network.forget()
            #expect(try await phone.session().handle == session.handle)
            #expect(try await phone.refresh().handle == session.handle)
            // If the library does not know yet that the sessions need a proof with each request, it requests a pass once
            // and gets 403.
            var kept = try #require(try phone.storage.read())
            kept.lastSession = nil
            try phone.storage.write(kept)
            #expect(try await phone.session().handle == session.handle)
            #expect(try await phone.refresh().handle == session.handle)
            let calls = try await network.calls()
            #expect(calls.map(\.code) == [nil, nil, "proof_required", nil, nil, nil], "\(calls)")
            #expect(calls.filter { $0.path == "/v1/session/pass" }.map(\.status) == [403])
        }

        @Test("An app restarts with only its cookies → its bound session continues")
        func cookies() async throws {
            let stack = try await Stack.shared.value
            let key = try SoftwareProofKey()
            let jar = URLSessionConfiguration.ephemeral.httpCookieStorage ?? .shared
            let first = stack.boundDevice(
                user: "nia", key: key, storage: CookieStorage(broker: stack.broker, cookies: jar))
            let session = try #require(try await first.signIn(with: "oidc").session)
            #expect(jar.cookies(for: stack.broker)?.contains { $0.name == "coatcheck-pass" } == true)
            let second = stack.boundDevice(
                user: "nia", key: key, storage: CookieStorage(broker: stack.broker, cookies: jar))
            #expect(try await second.session().handle == session.handle)
            for cookie in jar.cookies(for: stack.broker) ?? [] where cookie.name == "coatcheck-pass" {
                jar.deleteCookie(cookie)
            }
            let third = stack.boundDevice(
                user: "nia", key: key, storage: CookieStorage(broker: stack.broker, cookies: jar))
            #expect(try await third.session().handle == session.handle)
            try await third.signOut()
            #expect(jar.cookies(for: stack.broker)?.isEmpty != false)
        }

        @Test(
            "A client is not bound → it works with and without a key; a bound client has no key → its sign-in is refused"
        )
        func unbound() async throws {
            let stack = try await Stack.shared.value
            let network = try MeddlingNetwork(to: stack.broker)
            for key in [nil, try SoftwareProofKey()] {
                try await network.forget()
                let phone = stack.boundDevice("ios", user: "ole", key: key, at: network.url)
                let session = try #require(try await phone.signIn(with: "oidc").session)
                #expect(try session.binding == nil && phone.storage.read()?.pass == nil)
                #expect(try await phone.session().handle == session.handle)
                #expect(try await phone.pass() == nil)
                try await phone.signOut()
                let calls = try await network.calls()
                #expect(calls.map(\.path) == ["/v1/logins", "/v1/sessions", "/v1/session", "/v1/session"])
                #expect(
                    calls.map(\.proof) == (key == nil ? [false, false, false, false] : [true, true, false, false]))
            }
            try await network.forget()
            let old = stack.boundDevice(user: "ole", key: nil, at: network.url)
            #expect(await problem { try await old.signIn(with: "oidc") }?.code == .proofRequired)
            #expect(try await network.calls().count == 1)
        }
    }
}
