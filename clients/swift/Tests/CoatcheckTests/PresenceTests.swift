import Foundation
import Testing

@testable import Coatcheck

extension BrokerTests {
    @Suite("The user's presence", .timeLimit(.minutes(2)))
    struct PresenceTests {
        /// A device with a presence key, which asks its user for each signature.
        private struct Device {
            let phone: Coatcheck
            let asking: AskingKey
            let browser: StepUpBrowser
            let network: MeddlingNetwork
            let clock: Clock

            func pay(presence: Bool = false) async throws -> Int {
                try await phone.relay("watched", "echo", method: "POST", body: Data(), presence: presence).status
            }

            /// The relayed calls since the last `forget()`.
            func paid() async throws -> [MeddlingNetwork.Seen] {
                try await network.calls().filter { $0.path == "/v1/relay/watched/echo" }
            }
        }

        /// A clock that a test can move.
        private final class Clock: @unchecked Sendable {
            private let lock = NSLock()
            private var ahead = 0.0
            func turn(by seconds: Double) { lock.withLock { ahead += seconds } }
            func now() -> Date { Date() + lock.withLock { ahead } }
        }

        private func device(
            _ client: String = "bound", age: Int? = nil, registers: Bool = true, steps: Bool = false
        ) async throws -> Device {
            let network = try MeddlingNetwork(to: try await Stack.shared.value.broker)
            let asking = try AskingKey()
            let browser = StepUpBrowser(user: "pia", age: age)
            let clock = Clock()
            var onStepUp: (@Sendable (StepUp) async -> Bool)?
            if steps { onStepUp = { _ in true } }
            let phone = Coatcheck(
                broker: network.url, client: client, storage: MemoryStorage(), key: try SoftwareProofKey(),
                presenceKey: asking, browser: browser, onStepUp: onStepUp, patience: Patience(),
                now: { clock.now() })
            _ = try await phone.signIn(with: "oidc")
            browser.age = nil
            if registers { try await phone.registerPresenceKey() }
            try await network.forget()
            return Device(phone: phone, asking: asking, browser: browser, network: network, clock: clock)
        }

        private func failure<Value>(_ work: () async throws -> Value) async -> (any Error)? {
            do { _ = try await work() } catch { return error }
            return nil
        }

        @Test(
            "An app registers a presence key → one prompt; the last sign-in is too old → a new sign-in is required first",
            arguments: ["bound", "bound-bearer"])
        func registration(client: String) async throws {
            let stack = try await Stack.shared.value
            let without = stack.boundDevice(client, user: "pia", key: try SoftwareProofKey())
            _ = try await without.signIn(with: "oidc")
            await #expect(throws: CoatcheckError.noPresenceKey) { try await without.registerPresenceKey() }
            await #expect(throws: CoatcheckError.noPresenceKey) {
                try await without.relay("watched", "echo", presence: true)
            }
            #expect(
                (await failure { try await without.relay("watched", "echo") } as? Problem)?.code == .presenceRequired)

            let old = try await device(client, age: 4_000, registers: false)
            let refused = await failure { try await old.phone.registerPresenceKey() } as? StepUpRequired
            #expect(refused?.stepUp == StepUp(maxAge: 600) && old.asking.prompts == 0)
            #expect((await failure { try await old.pay() } as? Problem)?.code == .presenceRequired)
            #expect(old.asking.prompts == 0)
            _ = try await old.phone.stepUp(maxAge: 600)
            let session = try await old.phone.registerPresenceKey()
            #expect(old.asking.prompts == 1)
            #expect(session.presence?.jkt == (try await old.asking.publicKey()?.thumbprint))
            #expect(try await old.phone.registerPresenceKey().presence == session.presence)
            #expect(try await old.pay() == 200)

            // If the app allows step-ups, one call is enough for the registration.
            let steps = try await device(client, age: 4_000, registers: false, steps: true)
            #expect(try await steps.phone.registerPresenceKey().presence != nil)
            #expect(steps.asking.prompts == 1 && steps.browser.pages.count == 2)
        }

        @Test(
            "An answer has a lower version of the session → ignored; it has an equal version, or none → used")
        func older() async throws {
            let one = try await device()
            let (phone, network) = (one.phone, one.network)
            let newest = try await phone.session()
            #expect(newest.version == 2 && newest.presence != nil)
            try await network.meddle("older", "/v1/session", times: 2)
            #expect(try await phone.session().presence == newest.presence)
            #expect(await phone.standing() == .signedIn(try #require(try phone.storage.read()?.lastSession)))
            try await network.meddle("older", "/v1/session/refresh")
            let refreshed = try await phone.refresh()
            #expect(refreshed.version == 2 && refreshed.presence == newest.presence)
            try await network.meddle("older", "/v1/session/events")
            for try await event in phone.events() {
                guard case .session(let session) = event else { continue }
                #expect(session.presence == newest.presence)
                break
            }
            try await network.meddle("older", "/v1/session/presence-key")
            #expect(try await phone.registerPresenceKey().presence == newest.presence)
            #expect(try phone.storage.read()?.lastSession?.presence == newest.presence)
            let prompts = one.asking.prompts
            #expect(try await one.pay() == 200)
            #expect(one.asking.prompts == prompts + 1)
            try await network.meddle("unversioned", "/v1/session")
            #expect(try await phone.session().acr == "older")
            #expect(try await phone.session().presence == newest.presence)
        }

        @Test("A call that needs presence → one prompt; an old nonce → renewed before the prompt")
        func once() async throws {
            let one = try await device()
            #expect(try await one.pay() == 200)
            #expect(one.asking.prompts == 2)
            #expect(try await one.paid().map(\.code) == ["presence_required", nil])
            #expect(try await one.paid().map { $0.presence != nil } == [false, true])
            try await one.network.forget()
            #expect(try await one.pay(presence: true) == 200)
            #expect(one.asking.prompts == 3)
            #expect(try await one.network.calls().map(\.status) == [200])
            // If the nonce is old, the library fetches a new one before the user is asked.
            try await one.network.forget()
            one.clock.turn(by: 300)
            #expect(try await one.pay(presence: true) == 200)
            #expect(one.asking.prompts == 4)
            let calls = try await one.network.calls().filter { $0.path != "/v1/session/pass" }
            #expect(calls.map(\.code) == ["use_dpop_nonce", nil, nil])
            #expect(calls.map(\.path) == ["/v1/session", "/v1/session", "/v1/relay/watched/echo"])
            // If the broker refuses the proof or the pass, the library repeats the call with the same presence proof.
            try await one.network.forget()
            try await one.network.meddle("proof_required", "/v1/relay/watched/echo")
            #expect(try await one.pay(presence: true) == 200)
            #expect(one.asking.prompts == 5)
            let paid = try await one.paid()
            #expect(paid.count == 2 && Set(paid.map(\.presence)).count == 1)
        }

        @Test("The broker refuses a presence proof because of its nonce → the user gets exactly one more prompt")
        func refused() async throws {
            let one = try await device()
            let path = "/v1/relay/watched/echo"
            try await one.network.meddle("presence-nonce", path)
            #expect(try await one.pay(presence: true) == 200)
            #expect(one.asking.prompts == 3)
            try await one.network.forget()
            try await one.network.meddle("presence-nonce", path, times: 9)
            #expect((await failure { try await one.pay(presence: true) } as? Problem)?.code == .presenceInvalid)
            #expect(one.asking.prompts == 5)
            #expect(try await one.paid().count == 2)
            for reason in ["replayed", "signature"] {
                try await one.network.forget()
                try await one.network.meddle("presence-\(reason)", path, times: 9)
                #expect((await failure { try await one.pay(presence: true) } as? Problem)?.reason == reason)
                #expect(try await one.paid().count == 1, "the call may have taken effect, or a repeat cannot help")
            }
            try await one.network.forget()
            try await one.network.meddle("presence-key", path, times: 9)
            await #expect(throws: CoatcheckError.presenceKeyLost) { try await one.pay() }
            try await one.network.forget()
            // If the sign-in is too old, the user signs in again before the prompt.
            let steps = try await device(steps: true)
            try await steps.network.meddle("step_up_required", path)
            #expect(try await steps.pay() == 200)
            #expect(steps.browser.pages.count == 2 && steps.asking.prompts == 2)
        }

        @Test(
            "Ten calls need presence at once → ten prompts in turn; the user refuses one → all waiting calls are cancelled"
        )
        func ten() async throws {
            let one = try await device()
            func all() async -> [(any Error)?] {
                await withTaskGroup(of: (any Error)?.self, returning: [(any Error)?].self) { group in
                    for _ in 0..<10 { group.addTask { await failure { try await one.pay() } } }
                    return await group.reduce(into: []) { $0.append($1) }
                }
            }
            #expect(await all().allSatisfy { $0 == nil })
            #expect(one.asking.prompts == 11 && one.asking.most == 1)
            #expect(try await Set(one.paid().compactMap(\.presence)).count == 10)
            one.asking.holds = true
            one.asking.refuses = true
            async let answers = all()
            while one.phone.prompts.count < 9 { try await Task.sleep(for: .milliseconds(10)) }
            one.asking.holds = false
            #expect(await answers.allSatisfy { $0 as? CoatcheckError == .cancelled })
            #expect(one.asking.prompts == 12)
            // A cancelled call ends at once and does not delay the others.
            one.asking.refuses = false
            one.asking.holds = true
            let calls = (0..<3).map { _ in Task { try await one.pay() } }
            while one.phone.prompts.count < 2 { try await Task.sleep(for: .milliseconds(10)) }
            calls[0].cancel()
            await #expect(throws: CancellationError.self) { try await calls[0].value }
            one.asking.holds = false
            for call in calls.dropFirst() { _ = try? await call.value }
            #expect(try await one.pay() == 200)
        }

        @Test("The presence key is lost → calls that need it fail until a new sign-in, and the session continues")
        func lost() async throws {
            let one = try await device()
            let first = try await one.asking.publicKey()
            one.asking.inner.lose()
            await #expect(throws: CoatcheckError.presenceKeyLost) { try await one.pay() }
            await #expect(throws: CoatcheckError.presenceKeyLost) { try await one.phone.registerPresenceKey() }
            let session = try await one.phone.session()
            #expect(one.asking.prompts == 1 && session.presence?.jkt == first?.thumbprint)
            _ = try await one.phone.signIn(with: "oidc")
            #expect(try await one.phone.registerPresenceKey().presence?.jkt != first?.thumbprint)
            #expect(try await one.pay() == 200)
        }
    }
}
