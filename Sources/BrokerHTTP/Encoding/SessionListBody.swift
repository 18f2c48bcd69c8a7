import Broker

/// Writes lists of sessions; the items are session objects with `current` and `device`.
enum SessionListBody {
    static func bytes(_ items: [(session: SessionView, isCurrent: Bool)], nextCursor: String?) -> [UInt8] {
        var writer = JSONWriter(capacity: 128 + 640 * items.count)
        writer.object { writer in
            writer.name("items")
            writer.array { writer in
                for item in items {
                    writer.object { writer in
                        SessionBody.members(of: item.session, into: &writer)
                        writer.member("current", item.isCurrent)
                        writer.member("device", item.session.device)
                    }
                }
            }
            writer.member("next_cursor", nextCursor)
        }
        return writer.bytes
    }
}
