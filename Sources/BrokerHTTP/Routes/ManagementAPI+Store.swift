import Broker
import BrokerWire
import HTTPTypes

extension ManagementAPI {
    /// `POST /admin/v1/backups`: writes a backup to a new file on this machine.
    @Sendable func backUp(_ call: Call) async throws(BrokerProblem) -> Answer {
        let token = try admin(call, for: .maintain)
        guard let store, let backUp = store.backUp else {
            throw BrokerProblem(.notFound, detail: "This store has no backup of its own: use PostgreSQL's means.")
        }
        var object = try object(call)
        let file = object.text("file", required: true, length: 2...4096)
        // A relative path would depend on the working directory of the process, which the operator would have to guess.
        if let file, !file.hasPrefix("/") || file.hasSuffix("/") { object.fault("file", .malformed) }
        try object.finish()
        guard let file else { throw BrokerProblem(.invalidRequest) }
        try await store.admin.noteBackup(actor: token.name)
        let backup: ManagementStore.Backup
        do throws(ManagementStore.Refusal) { backup = try await backUp(file) } catch {
            throw BrokerProblem(
                .invalidRequest, detail: "No backup was written: \(error.text).",
                with: .fields([FieldFault("/file", .notAllowed)]))
        }
        var writer = JSONWriter(capacity: 256)
        writer.object { writer in
            writer.member("file", file)
            writer.member("bytes", backup.bytes)
            writer.member("sessions", Int64(backup.sessions))
            writer.member("schema_version", Int64(backup.schema))
            writer.member("opens", backup.opens)
            writer.member("ring", backup.ring)
        }
        return Answers.json(.created, writer.bytes, call)
    }

    /// `GET /admin/v1/keys`: the ring's keys, and the number of stored values that each key has sealed.
    @Sendable func listKeys(_ call: Call) async throws(BrokerProblem) -> Answer {
        _ = try admin(call, for: .read)
        guard let store else { throw BrokerProblem(.notFound) }
        let use = try await store.admin.keyUse()
        let known = store.keys()
        let missing = use.keys.filter { id in !known.contains { $0.id == id } }.sorted()
        var writer = JSONWriter(capacity: 512)
        writer.object { writer in
            writer.name("items")
            writer.array { writer in
                for key in known + missing.map({ ManagementStore.Key(id: $0, use: .missing) }) {
                    writer.object { writer in
                        writer.member("id", key.id)
                        writer.member("use", key.use.rawValue)
                        writer.member("seals_from", key.sealsFrom)
                        writer.member("values", Int64(use[key.id] ?? 0))
                    }
                }
            }
        }
        return Answers.json(.ok, writer.bytes, call)
    }

    /// `POST /admin/v1/keys/reseal`: begins to seal again the values that older keys have sealed.
    @Sendable func reseal(_ call: Call) async throws(BrokerProblem) -> Answer {
        let token = try admin(call, for: .maintain)
        guard let store else { throw BrokerProblem(.notFound) }
        return Answers.json(.accepted, Self.body(try await store.admin.reseal(actor: token.name)), call)
    }

    /// `GET /admin/v1/keys/reseal`: the progress of resealing in this process.
    @Sendable func resealProgress(_ call: Call) async throws(BrokerProblem) -> Answer {
        _ = try admin(call, for: .read)
        guard let store else { throw BrokerProblem(.notFound) }
        return Answers.json(.ok, Self.body(store.admin.progress), call)
    }

    private static func body(_ progress: Resealing.Progress) -> [UInt8] {
        var writer = JSONWriter(capacity: 256)
        writer.object { writer in
            writer.member("state", progress.state.rawValue)
            writer.member("key", progress.key)
            writer.member("total", Int64(progress.total))
            writer.member("seen", Int64(progress.seen))
            writer.member("resealed", Int64(progress.resealed))
            writer.member("unopened", Int64(progress.unopened))
        }
        return writer.bytes
    }

    /// Reads the request's JSON object.
    func object(_ call: Call, maximum: Int? = nil) throws(BrokerProblem) -> RequestObject {
        try RequestObject(parsing: call.body, maximumBytes: maximum ?? configuration.limits.body)
    }
}
