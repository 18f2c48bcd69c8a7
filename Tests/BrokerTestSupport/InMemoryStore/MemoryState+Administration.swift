import Broker
import BrokerStore

extension MemoryState {
    /// Returns every row of a kind, with the key that orders the rows.
    func stored(_ kind: StoredKind, at moment: Duration) -> [(key: [UInt8], row: StoredRow)] {
        switch kind {
        case .logins: logins.map { ($0.key.bytes, .login($0.value)) }
        case .handoffs: handoffs.map { ($0.key.bytes, .handoff($0.value)) }
        case .registrations: registrations.map { ($0.key.bytes, .registration($0.value)) }
        case .exchanges:
            exchanges.keys.compactMap { key in exchange(key, at: moment).map { (key.bytes, .exchange($0)) } }
        case .sessions:
            sessions.map { tokenDigest, row in
                (tokenDigest.bytes, .session(row, (marks[tokenDigest] ?? RefreshMarks()).moved(by: .zero - moment)))
            }
        case .outbox: outbox.map { ($0.key.bytes, .outbox($0.value)) }
        case .targetTokens: targetTokens.map { ($0.key.bytes, .targetToken($0.value)) }
        case .importPairs: importPairs.map { ($0.key.bytes, .importPair($0.value)) }
        case .importGrants: importGrants.map { ($0.key.bytes, .importGrant($0.key, at: $0.value)) }
        case .leases:
            leases.map { (Array($0.key.utf8), .lease(name: $0.key, owner: $0.value.owner, until: $0.value.until)) }
        case .seals: seals.map { (Array($0.key.utf8), .seals(key: $0.key, count: $0.value)) }
        case .audit: audit.enumerated().map { (Int64($0.offset).bigEndianBytes, .audit($0.element)) }
        case .logoutTokens: logoutTokens.map { ($0.key.bytes, .logoutToken($0.key, until: $0.value)) }
        }
    }

    mutating func insert(_ row: StoredRow, at moment: Duration) {
        switch row {
        case .login(let row): if logins[row.state] == nil { logins[row.state] = row }
        case .handoff(let row): if handoffs[row.login] == nil { handoffs[row.login] = row }
        case .registration(let row): insertRegistration(row)
        case .exchange(let row):
            guard exchanges[row.key] == nil else { return }
            exchanges[row.key] = row
            exchangeClaims[row.key] = moment + row.claimFor
        case .session(let row, let marks):
            guard sessions[row.tokenDigest] == nil, handles[row.handle] == nil else { return }
            sessions[row.tokenDigest] = row
            handles[row.handle] = row.tokenDigest
            self.marks[row.tokenDigest] = marks.moved(by: moment)
        case .outbox(let row): addOutbox([row])
        case .targetToken(let row): if targetTokens[row.key] == nil { targetTokens[row.key] = row }
        case .importPair(let pair): if importPairs[pair.key] == nil { importPairs[pair.key] = pair }
        case .importGrant(let key, let time): if importGrants[key] == nil { importGrants[key] = time }
        case .logoutToken(let id, let until): if logoutTokens[id] == nil { logoutTokens[id] = until }
        case .lease(let name, let owner, let until):
            if leases[name] == nil { leases[name] = Lease(owner: owner, until: until) }
        case .seals(let key, let count): if seals[key] == nil { seals[key] = count }
        case .audit(let row): audit.append(row)
        }
    }

    /// Returns the sealed values in one column of all rows.
    func sealed(_ place: SealedPlace) -> [SealedRow] {
        func row(_ key: Digest, _ boundTo: Digest, _ sealed: Sealed) -> SealedRow {
            SealedRow(place: place, key: key, boundTo: boundTo, sealed: sealed)
        }
        return switch place {
        case .facts: sessions.map { row($0.key, $0.key, $0.value.facts) }
        case .tokens:
            sessions.compactMap { tokenDigest, session in session.tokens.map { row(tokenDigest, tokenDigest, $0) } }
        case .presence:
            sessions.compactMap { tokenDigest, session in
                session.presence.map { row(tokenDigest, tokenDigest, $0.sealed) }
            }
        case .logins: logins.map { row($0.key, $0.key, $0.value.sealed) }
        case .handoffs: handoffs.map { row($0.key, $0.value.key, $0.value.sealed) }
        case .registrations: registrations.map { row($0.key, $0.key, $0.value.sealed) }
        case .outbox: outbox.map { row($0.key, $0.value.boundTo, $0.value.tokens) }
        case .targetTokens: targetTokens.map { row($0.key, $0.key, $0.value.tokens) }
        case .importPairs: importPairs.map { row($0.key, $0.key, $0.value.tokens) }
        }
    }

    /// Replaces a sealed value if the row still has the old one; returns whether it did.
    mutating func reseal(_ row: ResealedRow) -> Bool {
        guard sealed(row.old.place).contains(row.old) else { return false }
        let (key, new) = (row.old.key, row.new)
        switch row.old.place {
        case .facts: sessions[key]?.facts = new
        case .tokens: sessions[key]?.tokens = new
        case .presence: sessions[key]?.presence = StoredPresence(new)
        case .logins: logins[key]?.sealed = new
        case .handoffs: handoffs[key]?.sealed = new
        case .registrations: registrations[key]?.sealed = new
        case .outbox: outbox[key]?.tokens = new
        case .targetTokens: targetTokens[key]?.tokens = new
        case .importPairs: importPairs[key]?.tokens = new
        }
        return true
    }
}
