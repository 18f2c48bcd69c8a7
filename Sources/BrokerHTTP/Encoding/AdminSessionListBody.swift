import Broker

/// Writes the operators' list of sessions; the items are session objects with `device`, `sender_constrained`, `ended_at` and
/// `reason`.
enum AdminSessionListBody {
    static func bytes(_ page: SessionPage) -> [UInt8] {
        var writer = JSONWriter(capacity: 128 + 640 * page.items.count)
        writer.object { writer in
            writer.name("items")
            writer.array { writer in
                for item in page.items {
                    writer.object { writer in
                        SessionBody.members(of: item.session, into: &writer)
                        writer.member("device", item.session.device)
                        writer.member("sender_constrained", item.senderConstraint?.rawValue)
                        writer.member("ended_at", item.endedAt)
                        writer.member("reason", item.reason?.rawValue)
                    }
                }
            }
            writer.member("next_cursor", page.nextCursor)
        }
        return writer.bytes
    }
}
