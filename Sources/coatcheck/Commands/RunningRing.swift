import ArgumentParser
import Broker

/// The key ring of a running broker, asked until it has heard of a change to its file.
struct RunningRing: Sendable {
    /// Longer than a broker takes to look at its file, twice.
    private static let patience = 15
    let management: ManagementClient

    /// What each key of the ring is for, by id; keys that only stored rows name are none of it.
    func keys() async throws -> [String: String] {
        let answer = try await management.call("GET", "/admin/v1/keys", within: .seconds(600))
        guard let items = answer?["items"]?.array?.compactMap(\.object) else {
            throw ManagementClient.fault("the answer is not one of a broker")
        }
        return items.reduce(into: [:]) { keys, item in
            guard let id = item["id"]?.string, let use = item["use"]?.string, use != "missing" else { return }
            keys[id] = use
        }
    }

    /// Waits until the ring is as it should be; ends the command with status 1 and a sentence where it does not come to
    /// that.
    func wait(for file: String, toTell what: String, until isRight: ([String: String]) -> Bool) async throws {
        for attempt in 1...Self.patience {
            if isRight(try await keys()) { return }
            if attempt < Self.patience { try await Task.sleep(for: .seconds(1)) }
        }
        throw ManagementClient.fault(
            "the running broker \(what) of \(file): it has not read the file, or reads another one. Its log says why "
                + "(\"keys not reloaded\"); the file has to be its user's, or its group's with mode 0640. Then call this again"
        )
    }
}
