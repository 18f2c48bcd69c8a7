import FoundationEssentials
import Synchronization

/// The sandbox's whole state, behind one lock.
final class SandboxState: Sendable {
    let keys = KeyRings()
    let recording: Bool
    let seed: SeedFile?
    /// The client key that the sandbox accepts for `web-jwt` and for Apple's client secret.
    let clientKey = ClientKey()
    private let storage = Mutex(Storage())

    init(recording: Bool, seed: SeedFile? = nil) {
        self.seed = seed
        self.recording = recording
    }

    /// Runs `body` while holding the lock of the storage.
    func with<Result: Sendable>(_ body: (inout sending Storage) -> sending Result) -> Result {
        storage.withLock(body)
    }

    /// The sandbox's time in Unix seconds, moved by the offset that the control API sets.
    var now: Double { Date().timeIntervalSince1970 + with { $0.clockOffset } }

    /// The configured base URL, or else the listener's.
    var baseURL: String { with { $0.baseURL } }

    func user(_ name: String) -> SandboxUser {
        SandboxUser(name: name, overrides: with { $0.users[name] })
    }

    func settings(of provider: any SandboxProvider) -> Settings {
        let name = provider.name
        return Settings(json: provider.defaults.merging(with { $0.settings[name] } ?? [:]))
    }

    func client(_ id: String, at provider: String) -> SandboxClient? {
        with { storage in
            if storage.clients[provider] == nil { storage.clients[provider] = SandboxClient.defaults(of: provider) }
            return storage.clients[provider]?[id]
        }
    }

    /// Returns the faults that affect this request, and reduces the `times` of each.
    func takeFaults(provider: String, endpoint: String, text: () -> String) -> Faults {
        with { storage in
            guard !storage.faults.isEmpty else { return Faults() }
            var taken = Faults()
            let haystack = storage.faults.contains { $0.match != nil } ? text() : ""
            for index in storage.faults.indices {
                let fault = storage.faults[index]
                guard fault.provider == provider || fault.provider == "*",
                    fault.endpoint == endpoint || fault.endpoint == "*", fault.times != 0
                else { continue }
                if let match = fault.match, !haystack.contains(match) { continue }
                taken.all.append(fault)
                if let times = fault.times { storage.faults[index].times = times - 1 }
            }
            storage.faults.removeAll { $0.times == 0 }
            return taken
        }
    }

    /// Records and counts a request; the result identifies the record, so that its status can be added.
    func record(_ request: RecordedRequest) -> Int? {
        with { storage in
            storage.counts["\(request.provider)/\(request.endpoint)", default: 0] += 1
            guard recording else { return nil }
            return storage.records.append(request)
        }
    }

    /// Records the status of the answer.
    func recordStatus(_ status: Int, of ticket: Int?) {
        guard let ticket else { return }
        with { $0.records.setStatus(status, of: ticket) }
    }
}
