import { Cancelled, Coatcheck, Problem, Session } from './coatcheck'

/** The state of the app's screen. `message` is a sentence for the user about the last failure. */
export interface Screen { starting: boolean; user: string | null; orders: string; message: string }

const signedOut: Screen = { starting: false, user: null, orders: '', message: '' }

/** The model of the app. `show` receives each new state. */
export class Shop {
  screen: Screen = { ...signedOut, starting: true }

  constructor(private readonly coatcheck: Coatcheck, private readonly show: (screen: Screen) => void = () => {}) {}

  /** Shows the first screen, within two seconds. */
  async start() {
    const standing = await this.coatcheck.standing()
    // If the network is missing, the user stays signed in.
    const session = standing.kind === 'signedIn' ? standing.session : standing.kind === 'unknown' ? standing.last : null
    this.change(session ? this.signedIn(session) : signedOut)
  }

  async signIn() {
    await this.attempt(async () => {
      const signIn = await this.coatcheck.signIn('oidc')
      if (signIn.kind === 'signedIn') this.change(this.signedIn(signIn.session))
    })
  }

  /** Calls the API behind the broker. The broker adds the provider's access token, and keeps it. */
  async loadOrders() {
    await this.attempt(async () => {
      const answer = await this.coatcheck.relay('api', 'private/orders')
      this.change({ orders: `${answer.status}: ${await answer.text()}` })
    })
  }

  async signOut() {
    await this.attempt(async () => { await this.coatcheck.signOut() })
    this.change(signedOut)
  }

  /** Follows the session while the app is in the foreground. A sign-out on another device ends it here, too. */
  async follow(signal: AbortSignal) {
    await this.attempt(async () => {
      for await (const event of this.coatcheck.events(signal)) if (event.kind === 'ended') this.change(signedOut)
    }, signal)
  }

  private signedIn(session: Session): Screen {
    const name = session.identity.name
    return { ...signedOut, user: typeof name === 'string' ? name : session.subject }
  }

  private change(screen: Partial<Screen>) {
    this.screen = { ...this.screen, ...screen }
    this.show(this.screen)
  }

  private async attempt(work: () => Promise<void>, signal?: AbortSignal) {
    this.change({ message: '' })
    try {
      await work()
    } catch (error) {
      if (error instanceof Problem && error.endsSession) this.change(signedOut)
      // The user closed the sign-in page, or the view is gone. Every other failure leaves the user signed in.
      else if (!(error instanceof Cancelled) && !signal?.aborted) this.change({ message: String(error) })
    }
  }
}
