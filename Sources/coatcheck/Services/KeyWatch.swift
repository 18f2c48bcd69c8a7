import Broker
import BrokerVault
import Synchronization

/// Keeps the vault's ring what the key file says: read again when its text changes, by whatever way (another file in its
/// place, a link that points elsewhere), and when a new key's time to seal has come.
final class KeyWatch: Sendable {
    private struct State {
        /// The digest of the text that was looked at last, good or not.
        var seen: Digest
        /// The digest of the text whose ring is in use.
        var used: Digest
        /// The ring in use.
        var ring: KeyRing
        var sealing: String
        /// Whether the last look went wrong, which is said once.
        var isFaulty = false
        /// The file's ring, where it was refused because its index key is another.
        var refused: KeyRing?
    }

    private let settings: KeySettings
    private let vault: OpenSSLVault
    private let now: @Sendable () -> WallTime
    private let log: ProcessLog
    /// Guards what was seen; no file is read while it is held.
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

    /// The ring in use.
    var ring: KeyRing { state.withLock { $0.ring } }

    /// Looks at the file and the time; blocks while the file does.
    func look(isAsked: Bool = false) { take(read(), isAsked: isAsked) }

    /// Reads the file; blocks while it does.
    func read() -> Result<[UInt8], StartFailure> {
        do throws(StartFailure) { return .success(try KeyRingFile.bytes(settings)) } catch { return .failure(error) }
    }

    /// Takes what was read, and looks at the time.
    ///
    /// `isAsked` looks also where nothing has changed. A file that cannot be used changes nothing.
    func take(_ text: Result<[UInt8], StartFailure>, isAsked: Bool) {
        let moment = now()
        state.withLock { state in
            do throws(StartFailure) {
                let bytes = try text.get()
                let digest = vault.digest(bytes)
                let isNew = digest != state.seen
                state.seen = digest
                // A text that went wrong before goes wrong again until it changes; one that was away may be back.
                if digest == state.used { state.isFaulty = false }
                if isNew || isAsked {
                    // Refused is what the file says now, and nothing that it said before.
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

    /// Looks at the time alone.
    func lookAtTime() {
        let moment = now()
        state.withLock { lookAtTime(&$0, moment) }
    }

    /// A key that waits is known: its time comes whatever has become of the file.
    private func lookAtTime(_ state: inout State, _ moment: WallTime) {
        guard state.ring.sealingID(at: moment) != state.sealing else { return }
        do throws(StartFailure) { try take(state.ring, &state, moment) } catch {
            log.write(.error, "keys not reloaded", [("detail", "\(error)")])
        }
    }

    /// The file's ring, where it is not taken because its index key is another than that of the ring in use.
    var refused: KeyRing? { state.withLock { $0.refused } }

    /// Takes a refused ring whole, its index key with it, in place of one that opens nothing of what is stored; returns the
    /// ids of the keys that go.
    func takeWhole(_ ring: KeyRing) -> Set<String> {
        let moment = now()
        return state.withLock { state in
            let before = Set(state.ring.list.map(\.id))
            // Where the file has changed meanwhile, its text is looked at once more.
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
            throw StartFailure("the key file's index key is another: the old keys stay in use")
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

/// Has the key file looked at every two seconds and whenever it is asked for, without waiting for a file that does not
/// answer.
struct KeyRereading: Sendable {
    static let interval = Duration.seconds(2)

    private struct Text: Sendable {
        let bytes: Result<[UInt8], StartFailure>
        let isAsked: Bool
    }

    private let watch: KeyWatch
    private let clock: BrokerClock
    private let log: ProcessLog
    private let reading: Rereading<Text>

    init(_ watch: KeyWatch, _ clock: BrokerClock, log: ProcessLog) {
        self.watch = watch
        self.clock = clock
        self.log = log
        reading = Rereading(
            sleep: clock.sleep,
            isLate: {
                log.write(
                    .warning, "key file still reading",
                    [("detail", "it does not answer; the keys stay as they are, and it is taken over when it does")])
            },
            take: { watch.take($0.bytes, isAsked: $0.isAsked) })
    }

    /// Looks at the file, until it was taken or hangs; `isAsked` looks also where nothing has changed.
    func look(isAsked: Bool) async {
        // A look by the clock alone leaves the file to the reading that hangs.
        guard isAsked || !reading.isReading else { return watch.lookAtTime() }
        let isBegun = await reading.run { [watch] in Text(bytes: watch.read(), isAsked: isAsked) }
        if !isBegun {
            log.write(.error, "keys not reloaded", [("detail", "the key file does not answer: several readings hang")])
        }
    }

    /// The work of looking every two seconds.
    var service: RepeatedWork {
        RepeatedWork(clock: clock, delay: Self.interval) {
            await look(isAsked: false)
            return Self.interval
        }
    }
}
