import Broker

/// A ticket that an app got for a page, with the secret that the app put into the web view's cookie store.
final class HandoverTicket: @unchecked Sendable {
    let text: Secret
    let secret: Secret
    /// The session that is handed over.
    let parent: Ticket
    /// Whether the page belongs to a backend; otherwise it is the broker's own page.
    let isBackends: Bool
    /// The end of the ticket, one minute after its beginning, in milliseconds since the simulation began.
    let expiresAt: Int
    /// The place of the one child that the ticket may make.
    let place: Digest
    /// The child that an app or backend got for the ticket.
    var page: Ticket?

    /// Creates a ticket from the broker's answer; nil if the address lacks a ticket.
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
    /// The children that were made at each place, including those whose answers were lost.
    private var made: [Digest: [Digest]] = [:]
    private(set) var rows: [(child: Digest, parent: Digest)] = []

    /// Notes a child that was inserted; returns the number of different children that the place has had.
    func inserted(_ child: Digest, _ lineage: Lineage) -> Int {
        var children = made[lineage.place, default: []]
        if !children.contains(child) {
            children.append(child)
            rows.append((child, lineage.parent))
        }
        made[lineage.place] = children
        return children.count
    }

    /// Returns the children that a place has had.
    func all(at place: Digest) -> [Digest] { made[place, default: []] }
}
