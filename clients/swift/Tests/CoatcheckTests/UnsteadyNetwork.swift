import Foundation

@testable import Coatcheck

/// A proxy in front of the broker that cuts connections, is slow, or stays silent (`unsteady_proxy.py`).
final class UnsteadyNetwork: @unchecked Sendable {
    /// The calls of the devices behind the proxy, with their results.
    struct Seen: Sendable {
        var calls = 0
        var answered = 0
        var lost = 0
        var longest = Duration.zero
        var unexpected: [String] = []

        static func += (all: inout Seen, one: Seen) {
            all.calls += one.calls
            all.answered += one.answered
            all.lost += one.lost
            all.longest = max(all.longest, one.longest)
            all.unexpected += one.unexpected
        }
    }

    var url: URL { proxy.url }
    private let proxy: ProxyProcess

    init(to broker: URL) throws { proxy = try ProxyProcess("unsteady_proxy.py", to: broker, ["1", "whole-heads"]) }

    /// Signs a device in, makes calls, and signs out.
    ///
    /// The total number of calls is `calls`.
    func walk(user: String, calls: Int, patience: Patience, stack: Stack) async throws -> Seen {
        let storage = MemoryStorage()
        let phone = Coatcheck(
            broker: url, client: "ios", storage: storage, browser: ScriptedBrowser(user: user), patience: patience)
        var seen = Seen()
        func measured<Value>(_ work: () async throws -> Value) async -> Value? {
            let begin = ContinuousClock.now
            defer {
                seen.calls += 1
                seen.longest = max(seen.longest, ContinuousClock.now - begin)
            }
            do {
                let value = try await work()
                seen.answered += 1
                return value
            } catch CoatcheckError.unreachable {
            } catch let problem as Problem where problem.passes {
            } catch { seen.unexpected.append("\(error)") }
            return nil
        }
        var page: URL?
        while page == nil, seen.calls < calls { page = await measured { try await phone.start("oidc") } }
        guard let page else { return seen }
        let callback = try await ScriptedBrowser(user: user).open(page)
        var session: Session?
        while session == nil, seen.calls < calls {
            session = await measured { try await phone.finish(callback) }?.session
        }
        if session == nil { seen.lost += 1 }
        while seen.calls < calls - 1 {
            switch seen.calls % 4 {
            case 0:
                if let relayed = await measured({ try await phone.relay("api", "echo") }), relayed.status != 200 {
                    seen.unexpected.append("relay \(relayed.status)")
                }
            case 1:
                if case .signedOut = await measured({ await phone.standing() }) { seen.lost += 1 }
            default:
                if let answer = await measured({ try await phone.session() }), answer.subject != "user-\(user)" {
                    seen.lost += 1
                }
            }
        }
        _ = await measured { try await phone.signOut() }
        if try storage.read()?.session != nil { seen.unexpected.append("a session stays behind") }
        return seen
    }
}
