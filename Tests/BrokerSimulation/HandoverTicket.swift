import Broker

/// A hand-over ticket that an app got for a page.
///
/// The app has put the ticket's secret into the web view's cookie store.
final class HandoverTicket: @unchecked Sendable {
    let text: Secret
    let secret: Secret
    /// The session that the app hands over to the page.
    let parent: Ticket
    /// Whether the page belongs to a backend.
    ///
    /// If not, it is one of the broker's own pages.
    let isBackends: Bool
    /// The moment when the ticket ends, in milliseconds since the simulation began.
    ///
    /// A ticket lasts one minute.
    let expiresAt: Int
    /// The place (kind and name) of the one child that the ticket may make.
    let place: Digest
    /// The child session that an app or a backend got in return for the ticket.
    var page: Ticket?

    /// Creates a ticket from the broker's answer; nil if the address in the answer has no ticket.
    init?(_ handover: IssuedTicket, secret: Secret, of parent: Ticket, isBackends: Bool, _ vault: SimulatedVault) {
        let parts = handover.url.reveal().split { $0 == "/" || $0 == "=" }
        guard let text = parts.last else { return nil }
        self.text = Secret(String(text))
        self.secret = secret
        self.parent = parent
        self.isBackends = isBackends
        expiresAt = Int(handover.expiresAt.milliseconds - SimulatedProcess.begin)
        let name = Base64URL.encode(Array(vault.index(.handoverTicket, [String(text)]).bytes.prefix(16)))
        place = vault.index(.childPlace, [Base64URL.encode(parent.digest.bytes), ChildKind.web.text, name])
    }
}

/// The rows of children that were inserted in a run.
final class ChildRows {
    /// The children that were made at each place.
    ///
    /// A child counts even if the answer to its app was lost.
    private var made: [Digest: [Digest]] = [:]
    private(set) var rows: [(child: Digest, parent: Digest)] = []

    /// Notes a child that was inserted into the store; returns the number of different children at the same place so far.
    func inserted(_ child: Digest, _ lineage: Lineage) -> Int {
        var children = made[lineage.place, default: []]
        if !children.contains(child) {
            children.append(child)
            rows.append((child, lineage.parent))
        }
        made[lineage.place] = children
        return children.count
    }

    /// Returns all children that were made at a place.
    func all(at place: Digest) -> [Digest] { made[place, default: []] }
}
