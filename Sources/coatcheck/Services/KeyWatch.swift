import Broker
import BrokerVault
import Synchronization

/// Keeps the vault's key ring equal to the ring in the key file.
///
/// A changed text of the file is used, even if the file was replaced or a link has another target. A new key begins to seal at
/// the time that the ring contains.
final class KeyWatch: Sendable {
    private struct State {
        /// The digest of the last text of the key file, valid or not.
        var seen: Digest
        /// The digest of the text from which the ring in use was read.
        var used: Digest
        /// The key ring in use.
        var ring: KeyRing
        var sealing: String
        /// Whether the last check failed, so that the failure is logged once.
        var isFaulty = false
        /// The file's ring, if it was refused because of a different index key.
        var refused: KeyRing?
    }

    private let settings: KeySettings
    private let vault: OpenSSLVault
    private let now: @Sendable () -> WallTime
    private let log: ProcessLog
    /// Guards the ring and the state of the file.
    ///
    /// Files are read without this lock.
    private let state: Mutex<State>

    init(
        _ settings: KeySettings, _ text: [UInt8], _ ring: KeyRing, _ vault: OpenSSLVault,
        now: @escaping @Sendable () -> WallTime, log: ProcessLog
    ) {
        self.settings = settings
        self.vault = vault
        self.now = now
        self.log = log
        state = Mutex(
            State(seen: vault.digest(text), used: vault.digest(text), ring: ring, sealing: vault.currentKeyID))
    }

    /// The current ring.
    var ring: KeyRing { state.withLock { $0.ring } }

    /// Checks whether the key file has changed, and whether a waiting key begins to seal now.
    ///
    /// The call blocks the thread while it reads the file.
    func look(isAsked: Bool = false) { take(read(), isAsked: isAsked) }

    /// Reads the key file.
    ///
    /// The call blocks the thread.
    func read() -> Result<[UInt8], StartFailure> {
        do throws(StartFailure) { return .success(try KeyRingFile.bytes(settings)) } catch { return .failure(error) }
    }

    /// Uses the text of the key file, and checks whether a waiting key begins to seal now.
    ///
    /// With `isAsked`, an unchanged text is used too. An unusable file changes nothing.
    func take(_ text: Result<[UInt8], StartFailure>, isAsked: Bool) {
        let moment = now()
        state.withLock { state in
            do throws(StartFailure) {
                let bytes = try text.get()
                let digest = vault.digest(bytes)
                let isNew = digest != state.seen
                state.seen = digest
                // A faulty text stays faulty until it changes, so its fault is logged once. But a file that was missing may be
                // back with the text of the ring in use.
                if digest == state.used { state.isFaulty = false }
                if isNew || isAsked {
                    // Forget the refused ring, because it came from the previous text.
                    state.refused = nil
                    try take(KeyRingFile.ring(bytes, of: settings.place), &state, moment)
                    state.used = digest
                }
            } catch {
                if !state.isFaulty || isAsked { log.write(.error, "keys not reloaded", [("detail", "\(error)")]) }
                state.isFaulty = true
            }
            lookAtTime(&state, moment)
        }
    }

    /// Checks whether a waiting key begins to seal now, without reading the file.
    func lookAtTime() {
        let moment = now()
        state.withLock { lookAtTime(&$0, moment) }
    }

    /// Lets a new key of the ring in use begin to seal when its time has come, even if the key file is gone.
    private func lookAtTime(_ state: inout State, _ moment: WallTime) {
        guard state.ring.sealingID(at: moment) != state.sealing else { return }
        do throws(StartFailure) { try take(state.ring, &state, moment) } catch {
            log.write(.error, "keys not reloaded", [("detail", "\(error)")])
        }
    }

    /// The file's ring, if the process does not use it because its index key differs from the current ring's.
    var refused: KeyRing? { state.withLock { $0.refused } }

    /// Uses a refused ring, including its index key, instead of a ring that opens no stored value.
    ///
    /// Returns the ids of the removed keys.
    func takeWhole(_ ring: KeyRing) -> Set<String> {
        let moment = now()
        return state.withLock { state in
            let before = Set(state.ring.list.map(\.id))
            // The ring comes from the file's present text only if that text is still refused. Otherwise the file has changed
            // meanwhile, so leave `used` as it is.
            let isTheFiles = state.refused != nil
            do throws(StartFailure) { try take(ring, &state, moment, isWhole: true) } catch { return [] }
            if isTheFiles { state.used = state.seen }
            return before.subtracting(ring.list.map(\.id))
        }
    }

    private func take(
        _ ring: KeyRing, _ state: inout State, _ moment: WallTime, isWhole: Bool = false
    ) throws(StartFailure) {
        do throws(VaultFailure) { try vault.replace(ring: ring, at: moment, isWhole: isWhole) } catch {
            state.refused = ring
            throw StartFailure(
                "the key file has another index key, so the old keys stay in use; restore the file of this store")
        }
        state.isFaulty = false
        state.refused = nil
        state.ring = ring
        state.sealing = vault.currentKeyID
        var pairs = [("count", String(ring.list.count)), ("sealing", state.sealing)]
        if let next = ring.list(at: moment).first?.waitsUntil { pairs.append(("next_from", next.rfc3339)) }
        log.write(.notice, "keys reloaded", pairs)
    }
}
